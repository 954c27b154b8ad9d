"""Questions to the scheduler, for users who may not read nodes and queues: see ``docs/visibility.md``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from scheduler.api.explained_kinds import EXPLAINED, is_kind
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import BAD_REQUEST, FORBIDDEN, NOT_FOUND, CommandError

if TYPE_CHECKING:
    from scheduler.cluster.kube.transport.errors import ApiError
    from scheduler.cluster.manifests import Manifest

Raw = dict[str, Any]


class UnansweredError(Exception):
    """The scheduler does not answer a question."""

    def __init__(self, message: str, status: int = 0, *, conclusive: bool = False) -> None:
        """``status``: the HTTP status code, or 0; ``conclusive``: whether a direct read would not help."""
        super().__init__(message)
        self.status = status
        self.conclusive = conclusive

    def beside(self, forbidden: CommandError) -> CommandError:
        """The error of a command that may not read the cluster either. ``forbidden``: the refusal of that."""
        if self.conclusive:
            return CommandError(str(self), self.status)
        status = FORBIDDEN if self.status in (FORBIDDEN, NOT_FOUND) else self.status or forbidden.status
        return CommandError(f"{forbidden.message}; {self}", status)


_TIMEOUT: Final = 60.0
"""Seconds; API servers give up after as many."""


def explanation(connection: Connection, kind: str, name: str, forbidden: CommandError) -> Raw:
    """The scheduler's answer why an object waits: ``explanation``, and the ``lines`` of the table. ``forbidden``: the
    refusal of a direct read. Raises CommandError."""
    if kind not in EXPLAINED:  # the scheduler answers about its PodGroup, which the user may read
        kind, name = "podgroup", _group_of_owner(connection, kind, name)
    return _ask_instead(connection, f"{EXPLAINED[kind].resource}/{name}/explain", forbidden)


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
    return _ask_instead(connection, "queuequotas", forbidden)


def run_review(connection: Connection, manifests: "Sequence[Manifest]") -> Raw:
    """The scheduler's answer whether objects would run if they were submitted: the worst ``verdict``, ``items``, and
    the ``lines`` of the table. Raises UnansweredError."""
    from scheduler.api.kinds import BESIDE_KINDS, SUBMITTED_KINDS

    considered = [each.raw for each in manifests if each.kind in SUBMITTED_KINDS or each.kind in BESIDE_KINDS]
    metadata = (raw["metadata"] for raw in considered)
    namespaces = dict.fromkeys(str(meta["namespace"]) for meta in metadata if "namespace" in meta)
    if len(namespaces) > 1:
        raise UnansweredError(f"the scheduler answers about one namespace at a time, not about {', '.join(namespaces)}")
    if namespaces and not connection.namespace:
        connection = replace(connection, namespace=next(iter(namespaces)))
    body = {"apiVersion": "v1", "kind": "List", "items": considered}
    return _ask(connection, "runreviews", body)


def _ask_instead(connection: Connection, what: str, forbidden: CommandError) -> Raw:
    """Asks because a direct read is forbidden. Raises CommandError."""
    try:
        return _ask(connection, what)
    except UnansweredError as error:
        raise error.beside(forbidden) from None


def _ask(connection: Connection, what: str, body: Raw | None = None) -> Raw:
    """``body``: of a question that is posted. Raises UnansweredError, and CommandError without credentials."""

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
            raise _unanswered(error) from None
        except (TransportError, msgspec.MsgspecError) as error:
            raise UnansweredError(f"the scheduler did not answer: {error}") from None

    return connection.run(work, timeout=_TIMEOUT)


def _unanswered(error: "ApiError") -> UnansweredError:
    if error.status == BAD_REQUEST or (error.status == NOT_FOUND and error.reason == "NotFound"):
        return UnansweredError(error.message, error.status, conclusive=True)
    why = {
        NOT_FOUND: "the scheduler does not answer users here (scheduler.visibility of the chart)",
        FORBIDDEN: "and so is the question to the scheduler",
    }.get(error.status, f"the scheduler was asked instead: {error.message or error}")
    return UnansweredError(why, error.status)


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
