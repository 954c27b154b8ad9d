"""Builders of vcjobs, and their admission."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from scheduler.api import objects, scheduling
from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation, ValidationResult, WebhookSettings
from scheduler.webhooks.job import mutate, validate

SETTINGS = WebhookSettings(
    scheduler_names=("volcano", "second"),
    job_plugins=frozenset(("ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray")),
)


class Cluster:
    """A ClusterView with queues only, given as ``name:parent:state``."""

    def __init__(self, *queues: str) -> None:
        self._queues = {}
        for text in queues:
            name, parent, state = text.split(":")
            self._queues[name] = scheduling.Queue(
                metadata=objects.ObjectMeta(name=name),
                spec=scheduling.QueueSpec(parent=parent),
                status=scheduling.QueueStatus(state=state),
            )

    def queue(self, name: str) -> scheduling.Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[scheduling.Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> objects.Namespace | None:
        raise AssertionError("not used by this kind")

    def bound_pods(self, queue: str) -> int:
        raise AssertionError("not used by this kind")


CLUSTER = Cluster(
    "root::Open", "default:root:Open", "dept:root:Open", "team:dept:Open", "shut:root:Closed", "new:root:"
)


def pod_spec(**fields: Any) -> Json:
    return {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never", **fields}


def task(name: str = "w", replicas: Any = 1, template: Json | None = None, **fields: Any) -> Json:
    made = {"name": name, "replicas": replicas, "template": template or {"spec": pod_spec()}, **fields}
    return {key: value for key, value in made.items() if value is not None}


def vcjob(*tasks: Json, name: str = "j", annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", **({"annotations": annotations} if annotations else {})},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def stored(job: Json) -> Json:
    """The job with its defaults. Asserts that the argument is not modified."""
    before = deepcopy(job)
    result = mutate(AdmissionRequest(Operation.CREATE, VCJOB, "default", "j", job), CLUSTER, SETTINGS)
    assert job == before
    return result


def refusal(job: Json, cluster: Cluster = CLUSTER, templates: Sequence[str] = ()) -> str:
    """The refusal of a new job after defaulting. ``templates``: the API server's problems of each distinct template."""
    return validation(stored(job), cluster).text(templates)


def raw_refusal(job: Json, cluster: Cluster = CLUSTER) -> str:
    """The refusal of a new job without defaulting."""
    return validation(job, cluster).text()


def validation(job: Json, cluster: Cluster = CLUSTER) -> ValidationResult:
    before = deepcopy(job)
    metadata = job.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    request = AdmissionRequest(Operation.CREATE, VCJOB, "default", name if isinstance(name, str) else "", job)
    found = validate(request, cluster, SETTINGS)
    assert job == before
    return found


def update_refusal(old: Json, new: Json) -> str:
    before = deepcopy((old, new))
    answer = validate(AdmissionRequest(Operation.UPDATE, VCJOB, "default", "j", new, old), CLUSTER, SETTINGS).text()
    assert (old, new) == before
    return answer


def with_pod(**fields: Any) -> Json:
    """A job with one task whose Pod spec has the given fields."""
    return vcjob(task(template={"spec": pod_spec(**fields)}))


def with_container(**fields: Any) -> Json:
    """A job with one task whose only container has the given fields."""
    return with_pod(containers=[{"name": "c", "image": "x", **fields}])
