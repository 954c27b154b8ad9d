"""Objects from files, for the verbs that create and delete them: of one kind, each in its namespace."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.failure import Failed
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind

file_option: Callable[[Any], Any] = click.option(
    "-f", "--file", "--filename", "files", multiple=True, metavar="FILE", type=click.Path(),
    help="File, directory or - with manifests in YAML or JSON. Repeatable.",
)  # fmt: skip


def read(files: Sequence[str], kind: "Kind", cluster: Cluster, connection: Connection) -> list[tuple[str, Raw]]:
    """The objects with their namespaces: their own, else that of the flags or the context.

    Raises Failed: what cannot be read, is of another kind, or is in another namespace than the flag says.
    """
    from scheduler.cluster.manifests import ManifestError, read_manifests

    try:
        manifests = read_manifests(files, generated_names=True)
    except ManifestError as error:
        raise Failed(str(error)) from None
    found = []
    for manifest in manifests:
        if manifest.kind != kind:
            version, other = manifest.raw["apiVersion"], manifest.raw["kind"]
            raise Failed(f"{manifest.where}: expected a {kind.name} of {kind.api_version}, got a {other} of {version}")
        own = manifest.raw["metadata"].get("namespace")
        if own and connection.namespace and own != connection.namespace:
            raise Failed(
                f"{manifest.where}: the namespace from the provided object {own!r} does not match the namespace "
                f"{connection.namespace!r}; pass --namespace={own}"
            )
        found.append((own or cluster.namespace, manifest.raw))
    if not found:
        raise Failed(f"no {kind.name} in {', '.join(files)}")
    return found


async def each(
    files: Sequence[str], kind: "Kind", cluster: Cluster, connection: Connection,
    do: Callable[[str, Raw], Awaitable[str]], done: str,
) -> None:  # fmt: skip
    """Do something with every object of the files; what is refused stops no other. Raises Failed with all refusals.

    ``do`` is given namespace and object, and gives the object's name; ``done``: what is printed before it.
    """
    refusals = []
    for namespace, item in read(files, kind, cluster, connection):
        try:
            echo(f"{done} {kind.name}: {namespace}/{await do(namespace, item)}")
        except Failed as failed:
            refusals.append(failed.message)
    if refusals:
        raise Failed("\n".join(refusals))
