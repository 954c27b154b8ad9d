"""A user with the ClusterRole `edit` in one namespace, and no other permission."""

import yaml

from controlplane.client import Client
from controlplane.manifests import ROOT
from controlplane.run import ControlPlane
from tests.integration.stage import client_of, wait

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_BATCH = "batch.volcano.sh"
_OURS = ("volcano-py-vcjob-editor", "volcano-py-vcjob-viewer")
EDIT = ("system:aggregate-to-edit", "system:aggregate-to-view", *_OURS)
"""The ClusterRoles that `edit` consists of. The controller that aggregates them does not run here, so the tests bind
each of them."""


def tenant_user(namespace: str) -> str:
    """The user's name."""
    return f"tenant-of-{namespace}"


def tenant(plane: ControlPlane, namespace: str) -> Client:
    """The user's client."""
    admin, user = plane.admin, tenant_user(namespace)
    there = {role["metadata"]["name"] for role in admin.get(f"{_RBAC}/clusterroles")["items"]}
    for role in yaml.safe_load_all((ROOT / "deploy" / "volcano-py.yaml").read_text(encoding="utf-8")):
        if role["kind"] == "ClusterRole" and role["metadata"]["name"] in set(_OURS) - there:
            admin.create(f"{_RBAC}/clusterroles", role)
    for number, name in enumerate(EDIT):
        binding = {
            "metadata": {"name": f"edit-{number}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        admin.create(f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)
    client = client_of(plane, user)
    wait(lambda: may(client, namespace, "create", "", "pods") and may(client, namespace, "create", _BATCH, "jobs"))
    return client


def may(client: Client, namespace: str, verb: str, group: str, resource: str) -> bool:
    """Whether the API server grants a user a permission in a namespace. It takes a moment to see a new RoleBinding."""
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    review = client.create(_REVIEWS, {"spec": {"resourceAttributes": asked}})
    return bool(review["status"]["allowed"])
