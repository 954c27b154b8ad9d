"""rank-table-controller: writes the rank table of a job into its ConfigMap ``rings-config-<job>``, and into a file.

As the Ascend operator, it updates a ConfigMap that the user creates, and creates none. A key is the namespace and the
name of a workload. The table is ``initializing`` until all Pods of the workload have chips, a rank and an address; if
one of them goes, it is ``initializing`` again.
"""

import json
from typing import Final, NamedTuple

from scheduler.api.kinds import CONFIG_MAP, POD, REPLICA_SET, Kind
from scheduler.api.names import (
    EVENT_RANK_TABLE,
    RANK_TABLE,
    RANK_TABLE_PREFIX,
    RANK_TABLE_VERSION,
)
from scheduler.api.objects import ConfigMap, KubeObject, Pod
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import Effect, Patch, Plan, Post, RemoveFile, WriteFile, malformed, warning
from scheduler.controllers.ranktable.servers import Server, ServerError, has_chips, read_server
from scheduler.controllers.ranktable.table import COMPLETED, Layout, TableError, completed, initializing, layout_of
from scheduler.controllers.ranktable.workloads import KINDS, Communicator, Communicators
from scheduler.controllers.store import Key, Store

PAUSE: Final = 1.0
"""Seconds between two plans for one job, so that a table is written once a second at most. A job of a thousand Pods
changes thousands of times while it starts."""
FIRST_VERSION: Final = "0"


class _Written(NamedTuple):
    """What was written last."""

    text: str
    version: str


class RankTableController(Controller):
    """See Controller."""

    name = "rank-table-controller"
    kinds: tuple[Kind, ...] = (*KINDS, REPLICA_SET, POD, CONFIG_MAP)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._communicators = Communicators(store)
        self._written: dict[Key, _Written] = {}
        self._planned: dict[Key, float] = {}
        """When the last plan for a workload was made."""
        self._reported: dict[Key, tuple[Post, ...]] = {}

    # --- what concerns whom -------------------------------------------------------------------------------------------
    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        if kind is not CONFIG_MAP:
            return self._communicators.observe(kind, old, new)
        obj = new or old
        if obj is None or not obj.metadata.name.startswith(RANK_TABLE_PREFIX):
            return []
        return [(obj.metadata.namespace, obj.metadata.name.removeprefix(RANK_TABLE_PREFIX))]

    # --- what to do ---------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        due = self._planned.get(key, 0.0) + PAUSE
        if now < due:
            return Plan(after=due - now)
        communicators = list(self._communicators.of(key))
        if not communicators:
            return self._forget(key)
        self._planned[key] = now
        first, *others = communicators
        text, events = _table(first)
        events += [_conflict(each, first) for each in others]
        plan = Plan()
        if tuple(events) != self._reported.get(key, ()):
            self._reported[key] = tuple(events)
            plan.then(*events)
        return self._write(key, first, text, now, plan)

    def _write(self, key: Key, communicator: Communicator, text: str, now: float, plan: Plan) -> Plan:
        """Adds the writes to a plan, if there are any."""
        last = self._last(key)
        if last is not None and last.text == text:
            return plan
        if not _is_completed(text) and not (last is not None and _is_completed(last.text)):
            return plan  # the user's own "initializing" stands
        fresh = last is None or (last.version in ("", FIRST_VERSION) and not _is_completed(last.text))
        version = FIRST_VERSION if fresh else str(int(now))
        self._written[key] = _Written(text, version)
        namespace, name = key
        data = {RANK_TABLE: text, RANK_TABLE_VERSION: version}
        effects: list[Effect] = [Patch(CONFIG_MAP, namespace, f"{RANK_TABLE_PREFIX}{name}", {"data": data})]
        if communicator.in_file:
            effects += [WriteFile(_directory(key), file, content) for file, content in data.items()]
        return plan.then(*effects)

    def _last(self, key: Key) -> _Written | None:
        """The table as it stands: in the ConfigMap if it is known, otherwise as it was written last."""
        namespace, name = key
        config_map = self._store.get(CONFIG_MAP, ConfigMap, namespace, f"{RANK_TABLE_PREFIX}{name}")
        if config_map is None:
            return self._written.get(key)
        data = config_map.data or {}
        return _Written(data.get(RANK_TABLE, ""), data.get(RANK_TABLE_VERSION, ""))

    def _forget(self, key: Key) -> Plan:
        """The workload is gone or has ended. Its file is removed; the ConfigMap is the user's."""
        self._reported.pop(key, None)
        self._planned.pop(key, None)
        if self._written.pop(key, None) is None:
            return Plan()
        return Plan().then(*(RemoveFile(_directory(key), file) for file in (RANK_TABLE, RANK_TABLE_VERSION)))

    # --- what came of it ----------------------------------------------------------------------------------------------
    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        self._written.pop(key, None)


def _table(communicator: Communicator) -> tuple[str, list[Post]]:
    """The table of a workload, and the Events about what is wrong with it."""
    layout = layout_of(communicator.labels, communicator.annotations, communicator.accelerator_types)
    events: list[Post] = []
    servers = _servers(communicator, events)
    if servers is None:
        return initializing(layout), events
    return _completed(communicator, servers, layout, events), events


def _servers(communicator: Communicator, events: list[Post]) -> list[Server] | None:
    """The entries of all Pods with chips; None if there are none, or if one is missing."""
    servers: list[Server] = []
    missing = len(communicator.pods) != communicator.size
    for pod in communicator.pods:
        if not has_chips(pod):
            missing = missing or not pod.spec.node_name
            continue
        server = _server(pod, events)
        if server is None:
            missing = True
        else:
            servers.append(server)
    return None if missing or not servers else servers


def _server(pod: Pod, events: list[Post]) -> Server | None:
    try:
        return read_server(pod)
    except ServerError as error:
        events.append(malformed(POD, pod, error.field, str(error)))
        return None


def _completed(communicator: Communicator, servers: list[Server], layout: Layout, events: list[Post]) -> str:
    try:
        return completed(servers, layout, own_nodes=communicator.own_nodes)
    except TableError as error:
        message = f"the rank table is not completed: {error}"
        events.append(warning(communicator.kind, communicator.obj, EVENT_RANK_TABLE, message))
        return initializing(layout)


def _conflict(communicator: Communicator, first: Communicator) -> Post:
    name = communicator.obj.metadata.name
    message = f"it has no rank table: {RANK_TABLE_PREFIX}{name} is that of the {first.kind.name} with this name"
    return warning(communicator.kind, communicator.obj, EVENT_RANK_TABLE, message)


def _is_completed(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("status") == COMPLETED


def _directory(key: Key) -> str:
    namespace, name = key
    return f"{namespace}.{name}"
