"""Small manifests of our kinds, and functions that create them on the API server."""

from collections.abc import Mapping
from typing import Any

from controlplane.client import Client
from scheduler.api.kinds import Kind

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
TASK = {"name": "w", "replicas": 1, "template": TEMPLATE}


def collection(kind: Kind, namespace: str) -> str:
    """The path of the objects of a kind; the namespace is left out for cluster-scoped kinds."""
    middle = f"namespaces/{namespace}/" if kind.namespaced else ""
    return f"/apis/{kind.api_version}/{middle}{kind.plural}"


def create(admin: Client, kind: Kind, namespace: str, body: Mapping[str, Any], *, strict: bool = True) -> Any:
    """Creates an object and returns it as stored. The object has the name of the namespace. `strict`: an unknown field
    is an error."""
    query = "?fieldValidation=Strict" if strict else ""
    manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": namespace}, **body}
    return admin.create(collection(kind, namespace) + query, manifest)


def job(**fields: Any) -> dict[str, Any]:
    """A vcjob of one task with these fields in its spec."""
    return {"spec": {"tasks": [TASK], **fields}}


def task(**fields: Any) -> dict[str, Any]:
    """A vcjob of one task with these fields in the task."""
    return {"spec": {"tasks": [{**TASK, **fields}]}}


def pod(**fields: Any) -> dict[str, Any]:
    """A vcjob of one task with these fields in its Pod template."""
    return task(template={"spec": {**TEMPLATE["spec"], **fields}})


def hypernode(*selectors: Mapping[str, Any]) -> dict[str, Any]:
    """A HyperNode of the nodes that these selectors select."""
    return {"spec": {"tier": 1, "members": [{"type": "Node", "selector": each} for each in selectors]}}
