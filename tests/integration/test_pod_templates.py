"""Pod templates that a real API server validates, with the one permission that this requires.

The cases are in pod_templates.yaml; the messages are those of Kubernetes, and other versions may word some of them
differently.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from controlplane.client import Client
from controlplane.run import ControlPlane
from scheduler.cluster.kube.admission.templates import Findings, TemplateValidator
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.observability.role_metrics import RoleMetrics
from scheduler.webhooks.contract import TemplateCheck, ValidationResult
from tests.integration.stage import client_of, wait
from tests.integration.tenant import may

pytestmark = pytest.mark.controlplane

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("pod_templates.yaml").read_text(encoding="utf-8"))
GROUP = "rbac.authorization.k8s.io"
T = TypeVar("T")


def template_of(case: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "c", "image": "x", **case.get("container", {})}
    whole: dict[str, Any] = case.get("template", {"spec": {"containers": [container], **case.get("pod", {})}})
    return whole


def encoded(case: dict[str, Any]) -> bytes:
    return json.dumps(template_of(case)).encode()


def with_validator(plane: ControlPlane, namespace: str, work: Callable[[TemplateValidator], Awaitable[T]]) -> T:
    """Runs a function as a user with the name of the namespace."""

    async def whole() -> T:
        client = ApiClient(Credentials(kubeconfig=str(plane.kubeconfig_for(namespace))), RoleMetrics())
        await client.start()
        try:
            return await work(TemplateValidator(client, namespace))
        finally:
            await client.close()

    return asyncio.run(whole())


@pytest.fixture
def allowed(control_plane: ControlPlane, admin: Client, namespace: str) -> str:
    """A namespace in which the user of its name may create PodTemplates, and nothing else."""
    path, metadata = f"/apis/{GROUP}/v1/namespaces/{namespace}", {"metadata": {"name": "templates"}}
    rules = [{"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["create"]}]
    admin.create(f"{path}/roles", {**metadata, "rules": rules})
    subjects = [{"kind": "User", "name": namespace, "apiGroup": GROUP}]
    role = {"kind": "Role", "name": "templates", "apiGroup": GROUP}
    admin.create(f"{path}/rolebindings", {**metadata, "roleRef": role, "subjects": subjects})
    user = client_of(control_plane, namespace)
    wait(lambda: may(user, namespace, "create", "", "podtemplates"))
    return namespace


def test_every_template_gets_the_response_of_kubernetes_and_none_is_stored(
    control_plane: ControlPlane, admin: Client, allowed: str
) -> None:
    async def work(validator: TemplateValidator) -> Findings:
        return await validator.validate([encoded(case) for case in CASES], 60.0)

    findings = with_validator(control_plane, allowed, work)
    assert (findings.not_validated, findings.reason) == ([], "")
    wrong = [
        (template_of(case), said)
        for case, said in zip(CASES, findings.problems, strict=True)
        if said != "".join(f"{problem}. " for problem in case["problems"])
    ]
    assert wrong == []
    assert admin.get(f"/api/v1/namespaces/{allowed}/podtemplates")["items"] == []


def test_pod_security_and_limit_ranges_of_the_namespace_do_not_matter(
    control_plane: ControlPlane, admin: Client, allowed: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.patch(f"/api/v1/namespaces/{allowed}", {"metadata": {"labels": labels}})
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    admin.create(f"/api/v1/namespaces/{allowed}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    container = {"resources": {"limits": {"cpu": "64"}}, "securityContext": {"privileged": True}}

    async def work(validator: TemplateValidator) -> Findings:
        return await validator.validate([encoded({"container": container})], 60.0)

    assert with_validator(control_plane, allowed, work) == Findings([""], [])


def test_without_the_permission_no_template_is_validated_and_the_reason_is_given(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work(validator: TemplateValidator) -> Findings:
        return await validator.validate([b"{}"], 60.0)

    findings = with_validator(control_plane, namespace, work)
    assert findings.unvalidated(ValidationResult([TemplateCheck(0, 0)], [b"{}"])) == (
        "1 of 1 Pod templates could not be validated, the first that of spec.task[0]: PodTemplates may not be created "
        f"in namespace {namespace}, not even in a dry run (403)"
    )
    assert f'User "{namespace}" cannot create resource "podtemplates"' in findings.answer


def test_hundreds_of_templates_are_validated_at_once(control_plane: ControlPlane, admin: Client, allowed: str) -> None:
    listed = [encoded({"container": {"args": [str(number)]}}) for number in range(300)]

    async def work(validator: TemplateValidator) -> Findings:
        return await validator.validate(listed, 60.0)

    assert with_validator(control_plane, allowed, work) == Findings([""] * len(listed), [])
