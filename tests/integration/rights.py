"""The rights that the chart grants to the roles, on a control plane where the chart is not installed."""

import functools
import time
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import yaml

from controlplane import manifests
from controlplane.client import ApiError, Client
from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.run import ControlPlane
from tests.rights_in_use import ALL_VALUES, ROLES, Right, granted

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
_kubeconfigs: WeakKeyDictionary[ControlPlane, dict[str, Path]] = WeakKeyDictionary()
"""Control plane -> role -> the kubeconfig of its service account."""


def account(plane: ControlPlane, role: str, namespace: str = "") -> Path:
    """The kubeconfig of a role's service account, which has the rights that the chart grants with all its values.
    ``namespace``: where it also has the rights that the chart grants in the namespace of the release."""
    if plane not in _kubeconfigs:
        rights = _rights(plane.binaries / "helm")
        for each in rights:
            _grant(plane.admin, each)
        of_each_binding = {(right.role, right.namespace): right for right in granted(rights, f"{RELEASE}-")}
        for right in of_each_binding.values():
            _wait_for(plane.admin, right)
        _kubeconfigs[plane] = {role: plane.kubeconfig_for(_user(role)) for role in ROLES}
    if namespace:
        for each in _rights(plane.binaries / "helm"):
            if each["metadata"].get("namespace") == NAMESPACE:
                _grant(plane.admin, {**each, "metadata": {**each["metadata"], "namespace": namespace}})
        _wait_for(plane.admin, Right(role, "create", "coordination.k8s.io", "leases", namespace))
    return _kubeconfigs[plane][role]


def _user(role: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{RELEASE}-{role}"


@functools.cache
def _rights(helm: Path) -> list[dict[str, Any]]:
    text = manifests.template(helm, *(f"--set={value}" for value in ALL_VALUES))
    return [each for each in yaml.safe_load_all(text) if each and each["kind"] in _PLURALS]


def _grant(admin: Client, right: dict[str, Any]) -> None:
    """Creates a role or a binding, and its namespace."""
    path = f"{_RBAC}/"
    if namespace := right["metadata"].get("namespace"):
        _create(admin, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        path += f"namespaces/{namespace}/"
    _create(admin, f"{path}{_PLURALS[right['kind']]}", right)


def _create(admin: Client, path: str, body: dict[str, Any]) -> None:
    """Creates an object unless it exists."""
    try:
        admin.create(path, body)
    except ApiError as error:
        if error.status != 409:
            raise


def _wait_for(admin: Client, right: Right) -> None:
    """Waits until the API server has read the binding of a right."""
    where = {"group": right.group, "verb": right.verb, "namespace": right.namespace}
    resource, _, subresource = right.resource.partition("/")
    what = {"resource": resource, "subresource": subresource, "name": next(iter(right.names), "")}
    review = {"spec": {"user": _user(right.role), "resourceAttributes": {**where, **what}}}
    deadline = time.monotonic() + 30
    while not admin.create(_REVIEWS, review)["status"]["allowed"]:
        if time.monotonic() > deadline:
            raise AssertionError(f"not granted within 30 s: {right}")
        time.sleep(0.05)
