"""Orders to the controllers: a Command object that names its target, as vcctl makes it."""

from typing import TYPE_CHECKING

from scheduler.cli.connection import Cluster
from scheduler.cli.failure import Failed
from scheduler.cli.output import key_in

if TYPE_CHECKING:
    from scheduler.api.batch import Action
    from scheduler.api.kinds import Kind


async def order(cluster: Cluster, kind: "Kind", name: str, action: "Action", namespace: str) -> str:
    """Have a controller do something to an object; the name of the Command, which is in ``namespace``.

    A namespaced target is in the same namespace. The Command is owned by its target, so that it does not outlive it.
    Raises Failed.
    """
    from scheduler.api.kinds import COMMAND

    target = await cluster.get(kind, namespace, name)
    metadata = target.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("uid"), str):
        raise Failed(f"{kind.name} {name}: the API server sent an object without metadata.uid")
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name,
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made = await cluster.create(
        COMMAND,
        namespace,
        {
            "apiVersion": COMMAND.api_version,
            "kind": COMMAND.name,
            "metadata": {
                "generateName": f"{name}-{action.value.lower()}-",
                "namespace": namespace,
                "ownerReferences": [reference],
            },
            "target": reference,
            "action": action.value,
        },
    )
    return key_in(made)[1]
