"""Operations on named objects that several sub-commands share: create a Command for an object, and delete objects."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.output import key_in
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.batch import Action
    from scheduler.api.kinds import Kind


async def send_command(cluster: Cluster, kind: "Kind", name: str, action: "Action", namespace: str) -> str:
    """Creates a Command, as vcctl does, by which a controller carries out an action on an object.

    Returns the name of the Command, which is in ``namespace``; a namespaced target is in the same namespace. The target
    owns the Command, so the Command is deleted with it. Raises CommandError.
    """
    from scheduler.api.kinds import COMMAND

    target = await cluster.get(kind, namespace, name)
    metadata = target.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("uid"), str):
        raise CommandError(f"{kind.name} {name}: the API server sent an object without metadata.uid")
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name,
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    created = await cluster.create(
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
    return key_in(created)[1]


def delete_each(connection: Connection, kind: "Kind", names: Sequence[str]) -> None:
    """Deletes objects one after the other, and stops at the first that the API server refuses to delete.

    Raises CommandError.
    """

    async def work(cluster: Cluster) -> None:
        for name in names:
            await cluster.delete(kind, cluster.namespace, name)
            echo(f"delete {kind.name.lower()} {name} successfully")

    connection.run(work)
