"""Validation of the Pod templates of vcjobs that ``simulate`` reads, by an API server; without one they are not
validated. A module of its own, so that ``simulate --help`` does not load the webhooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from scheduler.api.kinds import VCJOB
from scheduler.api.names import WHAT_IF
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.text import echo
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.webhooks.contract import Json, WebhookSettings
from scheduler.webhooks.job import template_checks

if TYPE_CHECKING:
    from scheduler.cluster.kube.admission.templates import TemplateValidator

SECONDS: Final = 60.0
"""Time limit for the templates of one job."""
_NOTE: Final = "note: Pod templates of vcjobs are not validated; with --kubeconfig FILE an API server validates them"


def check_templates(manifests: Sequence[Manifest], kubeconfig: str) -> None:
    """Validates the templates of new vcjobs, or prints that they are not validated.

    Raises ManifestError for an invalid template, and CommandError when the API server does not validate it.
    """
    jobs = [each for each in manifests if each.kind is VCJOB and _is_new(each.raw["metadata"])]
    if not jobs:
        return
    if not kubeconfig:
        echo(_NOTE, err=True)
        return

    async def work(cluster: Cluster) -> None:
        from scheduler.cluster.kube.admission.templates import TemplateValidator

        validator = TemplateValidator(cluster.client, cluster.namespace)
        for job in jobs:
            await _check(job, validator)

    Connection(kubeconfig=kubeconfig).run(work)


def _is_new(metadata: Json) -> bool:
    """Whether an object is created as it is: it is neither a copy from a cluster nor a what-if change."""
    annotations = metadata.get("annotations")
    return not metadata.get("uid") and not (isinstance(annotations, dict) and WHAT_IF in annotations)


async def _check(job: Manifest, validator: "TemplateValidator") -> None:
    validation = template_checks(job.raw, WebhookSettings())
    findings = await validator.validate(validation.templates, SECONDS)
    metadata = job.raw["metadata"]
    where = f"{job.where}: Job {metadata.get('namespace') or 'default'}/{metadata['name']}"
    refusal = validation.text(findings.problems)
    if refusal:
        raise ManifestError(f"{where}: {refusal}")
    unvalidated = findings.unvalidated(validation)
    if unvalidated:
        raise CommandError(f"{where}: {unvalidated}" + (f" ({findings.answer})" if findings.answer else ""))
