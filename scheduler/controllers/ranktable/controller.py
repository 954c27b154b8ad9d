"""rank-table-controller: writes the rank table of a job into its ConfigMap ``rings-config-<job>``, and into a file.

As the Ascend operator, it updates a ConfigMap that the user creates, and creates none. A key is the namespace and the
name of a workload. The table is ``initializing`` until all Pods of the workload have chips, a rank and an address; if
one of them goes, it is ``initializing`` again. A Pod that fails keeps its place in a table that is complete: either its
job ends, or the Pod is deleted.
"""

import json
from typing import Final, NamedTuple

from scheduler.api.batch import Workload
from scheduler.api.json_texts import config_map_problems
from scheduler.api.kinds import CONFIG_MAP, POD, REPLICA_SET
from scheduler.api.names import (
    EVENT_RANK_TABLE,
    NPU_JOB_KIND,
    RANK_TABLE,
    RANK_TABLE_PREFIX,
    RANK_TABLE_VERSION,
    RANK_TABLE_VOLUME,
)
from scheduler.api.objects import ConfigMap, KubeObject, Pod
from scheduler.api.times import seconds_left
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import (
    NOT_OURS,
    Effect,
    Patch,
    Plan,
    RecordEvent,
    RemoveFile,
    WriteFile,
    malformed,
    warning,
)
from scheduler.controllers.ranktable.servers import RankedServer, ServerError, TableError, read_server, requested_chips
from scheduler.controllers.ranktable.table import COMPLETED, INITIALIZING, completed, initializing, irregularities
from scheduler.controllers.ranktable.workloads import KINDS, Communicator, Communicators, has_failed, layout_of
from scheduler.controllers.store import Key, Store, key_of

PAUSE: Final = 1.0
"""Seconds between two writes of one table."""
PLAN_PAUSE: Final = 0.1
"""Seconds between two plans for one workload. One of a thousand Pods changes thousands of times while it starts."""
FIRST_VERSION: Final = "0"
MAX_BYTES: Final = 1_048_576
"""Size of the data of a ConfigMap that the API server accepts."""
_VERSION_BYTES: Final = 20


class _Written(NamedTuple):
    """The rank table that was written last."""

    text: str
    """The content of the file, and of the ConfigMap if it fits."""
    in_map: str
    version: str


class _Table(NamedTuple):
    """The rank table to write."""

    text: str
    initializing: str
    """The table while Pods are missing; equal to ``text`` then."""


class _Entry(NamedTuple):
    """The entry of a Pod in the rank table, as far as the Pod has one."""

    pod: Pod
    has_chips: bool
    server: RankedServer | None
    """The server of the Pod; None while something is missing, or if something is malformed."""
    problem: RecordEvent | None


class RankTableController(Controller):
    """Writes rank tables into ConfigMaps and files."""

    name = "rank-table-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._communicators = Communicators(store)
        self._written: dict[Key, _Written] = {}
        self._entries: dict[Key, dict[str, _Entry]] = {}
        """Job -> uid of a Pod -> its entry. A Pod is read again when it has changed."""
        self._planned: dict[Key, float] = {}
        """When the last plan for a workload was made."""
        self._changed: dict[Key, float] = {}
        """When its table was written last."""
        self._refused: dict[Key, str] = {}
        """The table that was not written because its ConfigMap is used for something else."""
        self._reported: dict[Key, tuple[RecordEvent, ...]] = {}

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(*KINDS)
    def _observe_workload(self, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        return [key_of(latest(old, new))]

    @observes(POD)
    def _observe_pod(self, old: Pod | None, new: Pod | None, now: float) -> list[Key]:
        return self._communicators.observe_pod(old, new)

    @observes(REPLICA_SET)
    def _observe_replica_set(self, old: Workload | None, new: Workload | None, now: float) -> list[Key]:
        return self._communicators.observe_replica_set(old, new)

    @observes(CONFIG_MAP)
    def _observe_config_map(self, old: ConfigMap | None, new: ConfigMap | None, now: float) -> list[Key]:
        namespace, name = key_of(latest(old, new))
        return [(namespace, name.removeprefix(RANK_TABLE_PREFIX))] if name.startswith(RANK_TABLE_PREFIX) else []

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        due = self._planned.get(key, 0.0) + PLAN_PAUSE
        if left := seconds_left(due, now, PLAN_PAUSE):
            return Plan(after=left)
        communicators = list(self._communicators.of(key))
        if not communicators:
            return self._forget(key)
        self._planned[key] = now
        first, *others = communicators
        table, events = self._table(key, first)
        events += [_conflict(each, first) for each in others]
        plan = self._write(key, first, table, events, now)
        if tuple(events) != self._reported.get(key, ()):
            self._reported[key] = tuple(events)
            plan.then(*events)
        return plan

    def _write(
        self, key: Key, communicator: Communicator, table: _Table, events: list[RecordEvent], now: float
    ) -> Plan:
        """Plans the writes, if there are any, and reports what prevents them."""
        last, written = self._last(key), self._written.get(key)
        in_map = self._in_map(key, communicator, table, events)
        in_file = written.text if written is not None else last.in_map if last is not None else ""
        writes_file = communicator.in_file and in_file != table.text
        writes_map = in_map is not None and (last is None or last.in_map != in_map)
        if writes_map and in_map == table.initializing and not (last is not None and _is_completed(last.in_map)):
            writes_map = False  # the user's own "initializing" stands
        if not writes_map and not writes_file:
            return Plan()
        due = self._changed.get(key, 0.0) + PAUSE
        if left := seconds_left(due, now, PAUSE):
            return Plan(after=left)
        self._changed[key] = now
        fresh = last is None or (last.version in ("", FIRST_VERSION) and not _is_completed(last.in_map))
        version = FIRST_VERSION if fresh else str(int(now))
        self._written[key] = _Written(table.text, table.initializing if in_map is None else in_map, version)
        effects: list[Effect] = []
        if writes_map:
            body = {"data": {RANK_TABLE: in_map, RANK_TABLE_VERSION: version}}
            key_in_data = "" if self._config_map(key) is not None else RANK_TABLE
            effects.append(Patch(CONFIG_MAP, key[0], _name(key), body, data_key=key_in_data))
        if writes_file:
            files = {RANK_TABLE: table.text, RANK_TABLE_VERSION: version}
            effects += [WriteFile(_directory(key), file, content) for file, content in files.items()]
        return Plan().then(*effects)

    def _in_map(self, key: Key, communicator: Communicator, table: _Table, events: list[RecordEvent]) -> str | None:
        """The text to write into the ConfigMap; None if the ConfigMap is used for something else."""
        config_map = self._config_map(key)
        data = {} if config_map is None else config_map.data or {}
        if config_map is not None:
            is_ours = NPU_JOB_KIND in (config_map.metadata.labels or ()) or RANK_TABLE in data
        else:
            is_ours = self._refused.get(key) != table.text
        if config_map is not None:
            problems = config_map_problems(config_map.metadata.name, data)
            events += [malformed(CONFIG_MAP, config_map, each.field, each.problem) for each in problems]
        if not is_ours:
            problem = f"{_name(key)} has neither the label {NPU_JOB_KIND} nor the key {RANK_TABLE}, and is left alone"
            events.append(_warning(communicator, f"it has no rank table in a ConfigMap: {problem}"))
            return None
        others = sum(
            len(value.encode()) for name, value in data.items() if name not in (RANK_TABLE, RANK_TABLE_VERSION)
        )
        size = len(table.text.encode()) + others + _VERSION_BYTES
        if size <= MAX_BYTES:
            return table.text
        advice = (
            "it is only in the file" if communicator.in_file else f"Pods can read it from a volume {RANK_TABLE_VOLUME}"
        )
        problem = f"the rank table makes it {size:,} bytes long, and a ConfigMap has at most {MAX_BYTES:,}"
        events.append(_warning(communicator, f"{_name(key)} stays {INITIALIZING}: {problem}; {advice}"))
        return table.initializing

    def _config_map(self, key: Key) -> ConfigMap | None:
        """The ConfigMap, if it is known: only those with the label are watched."""
        return self._store.get(CONFIG_MAP, key[0], _name(key))

    def _last(self, key: Key) -> _Written | None:
        """The table as it stands: in the ConfigMap if it is known, otherwise as it was written last."""
        config_map = self._config_map(key)
        if config_map is None:
            return self._written.get(key)
        text = (config_map.data or {}).get(RANK_TABLE, "")
        return _Written(text, text, (config_map.data or {}).get(RANK_TABLE_VERSION, ""))

    def _forget(self, key: Key) -> Plan:
        """Plans for a workload that is gone or has ended: its file is removed; the ConfigMap is the user's."""
        for state in (self._entries, self._planned, self._changed, self._refused, self._reported):
            state.pop(key, None)
        if self._written.pop(key, None) is None:
            return Plan()
        return Plan().then(*(RemoveFile(_directory(key), file) for file in (RANK_TABLE, RANK_TABLE_VERSION)))

    # --- results ------------------------------------------------------------------------------------------------------
    def done(self, key: Key, now: float) -> None:
        if key in self._changed and self._changed[key] == self._planned.get(key):
            self._changed[key] = now  # the plan wrote: the pause begins when that is done

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        written = self._written.pop(key, None)
        if written is not None and NOT_OURS in error:
            self._refused[key] = written.text

    # --- the table ----------------------------------------------------------------------------------------------------
    def _table(self, key: Key, communicator: Communicator) -> tuple[_Table, list[RecordEvent]]:
        """The table of a workload, and the Events about what is wrong with it."""
        layout = layout_of(
            communicator.labels, communicator.annotations, communicator.accelerator_types, communicator.chips
        )
        entries = self._read(key, communicator)
        events = [entry.problem for entry in entries if entry.problem is not None]
        start = initializing(layout)
        is_missing = len(entries) != communicator.size or any(
            entry.server is None if entry.has_chips else not entry.pod.spec.node_name for entry in entries
        )
        servers = [entry.server for entry in entries if entry.server is not None]
        if is_missing or not servers:
            return _Table(start, start), events
        own_nodes = communicator.own_nodes
        try:
            text = completed(servers, layout, own_nodes=own_nodes)
        except TableError as error:
            events.append(_warning(communicator, f"the rank table is not completed: {error}"))
            return _Table(start, start), events
        events += [
            _warning(communicator, f"the rank table is doubtful: {each}") for each in irregularities(servers, own_nodes)
        ]
        if any(has_failed(entry.pod) for entry in entries) and text not in self._complete_texts(key):
            return _Table(start, start), events
        return _Table(text, start), events

    def _complete_texts(self, key: Key) -> set[str]:
        """The tables that stand in the ConfigMap and in the file."""
        known = (self._last(key), self._written.get(key))
        return {text for each in known if each is not None for text in (each.text, each.in_map)}

    def _read(self, key: Key, communicator: Communicator) -> list[_Entry]:
        """The entries of the Pods. Only Pods that have changed are decoded again."""
        known = self._entries.get(key, {})
        entries: dict[str, _Entry] = {}
        for pod in communicator.pods:
            entry = known.get(pod.metadata.uid)
            entries[pod.metadata.uid] = entry if entry is not None and entry.pod is pod else _entry(pod)
        self._entries[key] = entries
        return list(entries.values())


def _entry(pod: Pod) -> _Entry:
    if not requested_chips(pod):
        return _Entry(pod, False, None, None)
    try:
        return _Entry(pod, True, read_server(pod), None)
    except ServerError as error:
        return _Entry(pod, True, None, malformed(POD, pod, error.field, str(error)))


def _warning(communicator: Communicator, message: str) -> RecordEvent:
    return warning(communicator.kind, communicator.obj, EVENT_RANK_TABLE, message)


def _conflict(communicator: Communicator, first: Communicator) -> RecordEvent:
    name = f"{RANK_TABLE_PREFIX}{communicator.obj.metadata.name}"
    return _warning(communicator, f"it has no rank table: {name} is that of the {first.kind.name} with this name")


def _is_completed(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("status") == COMPLETED


def _name(key: Key) -> str:
    """The name of the ConfigMap."""
    return f"{RANK_TABLE_PREFIX}{key[1]}"


def _directory(key: Key) -> str:
    namespace, name = key
    return f"{namespace}.{name}"
