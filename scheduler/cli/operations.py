"""Operations that several sub-commands share: read objects of a kind from files, send Commands, and delete objects."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.output import key_in
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.batch import Action
    from scheduler.api.kinds import Kind


file_option: Callable[[Any], Any] = click.option(
    "-f", "--file", "--filename", "files", multiple=True, metavar="FILE", type=click.Path(),
    help="File, directory or - with manifests in YAML or JSON. Repeatable.",
)  # fmt: skip


def read_files(files: Sequence[str], kind: "Kind", default: str, only: str = "") -> list[tuple[str, Raw]]:
    """Returns the objects with their namespaces: the object's own, else ``default``.

    Raises CommandError for objects that cannot be read, are of another kind, or name another namespace than ``only``,
    which is that of the flag, if it is given.
    """
    from scheduler.cluster.manifests import ManifestError, read_manifests

    try:
        manifests = read_manifests(files, generated_names=True)
    except ManifestError as error:
        raise CommandError(str(error)) from None
    found = []
    for manifest in manifests:
        if manifest.kind != kind:
            version, other = manifest.raw["apiVersion"], manifest.raw["kind"]
            raise CommandError(
                f"{manifest.where}: expected a {kind.name} of {kind.api_version}, got a {other} of {version}"
            )
        own = manifest.raw["metadata"].get("namespace")
        if own and only and own != only:
            raise CommandError(
                f"{manifest.where}: the namespace from the provided object {own!r} does not match the namespace "
                f"{only!r}; pass --namespace={own}"
            )
        found.append((own or default, manifest.raw))
    if not found:
        raise CommandError(f"no {kind.name} in {', '.join(files)}")
    return found


async def for_each(
    files: Sequence[str], kind: "Kind", cluster: Cluster, connection: Connection,
    do: Callable[[str, Raw], Awaitable[str]], done: str,
) -> None:  # fmt: skip
    """Calls ``do`` with the namespace and every object of the files. Raises CommandError with all refusals at the end.

    ``do`` returns the name of the object; ``done``: the word printed before it.
    """
    refusals = []
    for namespace, item in read_files(files, kind, cluster.namespace, connection.namespace):
        try:
            echo(f"{done} {kind.name}: {namespace}/{await do(namespace, item)}")
        except CommandError as failed:
            refusals.append(failed.message)
    if refusals:
        raise CommandError("\n".join(refusals))


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
