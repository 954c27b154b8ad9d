"""Questions to the scheduler, for users who may not read nodes and queues: see ``docs/visibility.md``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from scheduler.api.explained_kinds import EXPLAINED, is_kind
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import FORBIDDEN, NOT_FOUND, CommandError

if TYPE_CHECKING:
    from scheduler.cluster.kube.transport.errors import ApiError
    from scheduler.cluster.manifests import Manifest

Raw = dict[str, Any]
_TIMEOUT: Final = 60.0
"""Seconds; API servers give up after as many."""


def explanation(connection: Connection, kind: str, name: str, forbidden: CommandError) -> Raw:
    """The scheduler's answer why an object waits: ``explanation``, and the ``lines`` of the table. ``forbidden``: the
    refusal of a direct read. Raises CommandError."""
    if kind not in EXPLAINED:  # the scheduler answers about its PodGroup, which the user may read
        kind, name = "podgroup", _group_of_owner(connection, kind, name)
    return _ask(connection, f"{EXPLAINED[kind].resource}/{name}/explain", forbidden)


def _group_of_owner(connection: Connection, kind: str, name: str) -> str:
    """The name of a PodGroup that an owner of Pods has, the newest. Raises CommandError."""

    async def work(cluster: Cluster) -> str:
        from scheduler.api.kinds import POD_GROUP
        from scheduler.api.objects import controller_of
        from scheduler.api.reasons import no_such_object
        from scheduler.cli.view import read_objects
        from scheduler.cluster.kube.transport.sources import WatchSource

        found: list[tuple[str, str]] = []
        for group in read_objects(POD_GROUP, await cluster.fetch(WatchSource(POD_GROUP, cluster.namespace))):
            owner = controller_of(group)
            if owner is not None and owner.name == name and is_kind(kind, owner.kind):
                found.append((group.metadata.creation_timestamp or "", group.metadata.name))
        if not found:
            text = no_such_object(kind, cluster.namespace, name)
            raise CommandError(f"{text} that owns a PodGroup", NOT_FOUND)
        return max(found)[1]

    return connection.run(work, timeout=_TIMEOUT)


def quotas(connection: Connection, forbidden: CommandError) -> Raw:
    """The scheduler's answer about the queues of a namespace: ``items``, and the jobs that are ``waiting``.
    ``forbidden``: the refusal of a direct read. Raises CommandError."""
    return _ask(connection, "queuequotas", forbidden)


def run_review(connection: Connection, manifests: "Sequence[Manifest]", forbidden: CommandError) -> Raw:
    """The scheduler's answer whether objects would run if they were submitted: the worst ``verdict``, ``items``, and
    the ``lines`` of the table. ``forbidden``: the refusal of a direct read. Raises CommandError."""
    from scheduler.api.kinds import BESIDE_KINDS, SUBMITTED_KINDS

    considered = [each.raw for each in manifests if each.kind in SUBMITTED_KINDS or each.kind in BESIDE_KINDS]
    metadata = (raw["metadata"] for raw in considered)
    namespaces = dict.fromkeys(str(meta["namespace"]) for meta in metadata if "namespace" in meta)
    if len(namespaces) > 1:
        raise CommandError(f"the scheduler answers about one namespace at a time, not about {', '.join(namespaces)}")
    if namespaces and not connection.namespace:
        connection = replace(connection, namespace=next(iter(namespaces)))
    body = {"apiVersion": "v1", "kind": "List", "items": considered}
    return _ask(connection, "runreviews", forbidden, body)


def _ask(connection: Connection, what: str, forbidden: CommandError, body: Raw | None = None) -> Raw:
    """``body``: of a question that is posted."""

    async def work(cluster: Cluster) -> Raw:
        import msgspec

        from scheduler.api.names import VISIBILITY_API_VERSION
        from scheduler.cluster.kube.transport.errors import ApiError, TransportError
        from scheduler.cluster.kube.transport.ratelimit import CallPriority

        path = f"/apis/{VISIBILITY_API_VERSION}/namespaces/{cluster.namespace}/{what}"
        try:
            sent = None if body is None else msgspec.json.encode(body)
            received = await cluster.client.request(
                "GET" if body is None else "POST", path, body=sent, priority=CallPriority.READ, timeout=_TIMEOUT
            )
            return msgspec.json.decode(received, type=Raw)
        except ApiError as error:
            raise _error(error, forbidden) from None
        except (TransportError, msgspec.MsgspecError) as error:
            raise CommandError(f"{forbidden.message}; the scheduler did not answer either: {error}") from None

    return connection.run(work, timeout=_TIMEOUT)


def _error(error: "ApiError", forbidden: CommandError) -> CommandError:
    if error.status == NOT_FOUND and error.reason == "NotFound":
        return CommandError(error.message, NOT_FOUND)
    if error.status in (FORBIDDEN, NOT_FOUND):
        why = (
            "the scheduler does not answer users here (scheduler.visibility of the chart)"
            if error.status == NOT_FOUND
            else "and so is the question to the scheduler"
        )
        return CommandError(f"{forbidden.message}; {why}", FORBIDDEN)
    return CommandError(f"{error.message or error}; it was asked because direct reads are forbidden", error.status)


# --- positions --------------------------------------------------------------------------------------------------------
def positions(connection: Connection) -> dict[tuple[str, str], str]:
    """Namespace and name of each waiting vcjob -> its position in its queue, such as ``3/12``.

    Reads the cluster and runs a session in memory; where that is forbidden, asks the scheduler about the namespace.
    Raises CommandError.
    """
    try:
        lists = _positions_in_memory(connection)
    except CommandError as forbidden:
        if forbidden.status != FORBIDDEN:
            raise
        answer = quotas(connection, forbidden)
        lists = {answer.get("namespace", ""): answer}
    return {
        (namespace, entry["job"]): f"{entry['position']}/{entry['of']}"
        for namespace, answer in lists.items()
        for entry in answer.get("waiting", ())
        if "job" in entry
    }


def _positions_in_memory(connection: Connection) -> dict[str, Raw]:
    from scheduler.cli.cluster_source import ClusterSource
    from scheduler.cli.plugins import load_plugins, plugin_errors

    source = ClusterSource(connection, (), None, (), load_plugins)
    with plugin_errors(), source.simulated("scheduler.explain.queues") as found:
        from scheduler.explain.queues import queue_quotas

        return queue_quotas(found[1])
