"""The cards of one family of devices in one session: what is free, and what each Pod holds.

Each node has two states: its cards now, and its cards later, after terminating Pods are deleted and pipelined tasks are
placed. Evicting a Pod changes the later state only: what it holds becomes available to pipelined tasks.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from scheduler.api.device_states import IS_UNHEALTHY, DeviceFault
from scheduler.api.job import Job
from scheduler.api.task import FINISHED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.deviceshare.cards import Cards, Grant, charge, mask_of, max_usage
from scheduler.plugins.deviceshare.exclusion import ExclusionRule, ExclusionRules
from scheduler.plugins.deviceshare.family import DeviceFamily
from scheduler.plugins.deviceshare.inventory import FamilyClaims, Holders, read_nodes


class CardLedger(Ledger[Grant]):
    """The allocations of one family."""

    def __init__(
        self, session: PluginSession, family: DeviceFamily[Any], exclusion_rules: ExclusionRules | None = None
    ) -> None:
        super().__init__()
        self.family = family
        self._exclusion_rules = exclusion_rules
        self._names = session.nodes.names
        self.nodes = nodes = read_nodes(session.snapshot, family)
        """The nodes at the start of the session."""
        self.node_states = nodes.states
        """Row -> the state of the node at the start of the session."""
        self.has_devices = nodes.has_devices
        self.problems = nodes.problems
        self._in_use = nodes.in_use
        self._now: dict[int, Cards] = {}
        self._later: dict[int, Cards] = {}
        self._holders: dict[int, Holders] = {}
        """Row -> the Pods that hold cards there, for the nodes that changed in this session."""
        self._taken: dict[str, Grant] = {}
        self._pipelined: dict[str, tuple[Task, Grant, int]] = {}
        """uid -> what this session allocated (``_taken``) or pipelined to a task."""
        self.log: list[int] = []
        """Rows whose state changed, in order of change."""
        self._claims = FamilyClaims(family)

    # --- reading ---
    def node_name(self, row: int) -> str:
        return self._names[row]

    def claim(self, cls: TaskClass) -> Any:
        """Returns the request of a class; None if it requests no device of this family."""
        return self._claims.of(cls)

    def exclusion(self, cls: TaskClass, job_key: str) -> ExclusionRule | None:
        """Returns the Pods with which tasks of a class must not share a card; None if there is no restriction."""
        return None if self._exclusion_rules is None else self._exclusion_rules.exclusion(cls, job_key)

    def cards(self, row: int, *, later: bool) -> Cards:
        changed = self._later if later else self._now
        if row in changed:
            return changed[row]
        return self.node_states[row].later if later else self.node_states[row].now

    def usable(self, row: int, *, later: bool) -> Cards:
        """Returns the cards with the usage to place against. What is pipelined counts as used, so that no other task
        takes it."""
        cards = self.cards(row, later=later)
        has_pipelined = not later and self._pipelined and self._pipelined_on(row)
        return max_usage(cards, self.cards(row, later=True)) if has_pipelined else cards

    def _holders_on(self, row: int) -> Holders:
        """Returns the Pods that hold a part of the node's cards now."""
        return self._holders[row] if row in self._holders else self.node_states[row].holders

    def holders(self, row: int, *, later: bool) -> Iterable[tuple[Task, Grant]]:
        """Yields the Pods that hold a part of the node's cards now or later, with what they hold."""
        for uid, (task, grant) in self._holders_on(row).items():
            if not later or not (uid in self._evicted or task.status is TaskStatus.RELEASING):
                yield task, grant
        if later:
            yield from self._pipelined_on(row)

    def held(self, cls: TaskClass, grant: Grant) -> Grant:
        """Returns what a grant of a task of the class takes from the cards."""
        held: Grant = self.family.held(self.claim(cls), grant)
        return held

    def grants(self) -> Iterator[tuple[Task, Grant]]:
        """Yields all Pods that hold a part of a card, with what they hold."""
        for row in sorted(self._in_use | self._holders.keys()):
            yield from self._holders_on(row).values()

    def faults(self) -> Iterator[DeviceFault]:
        """Yields the cards that the device plugin reports as unhealthy, for each Pod that held a part of one at the
        start of the session."""
        for row in sorted(self.nodes.unhealthy & self._in_use):
            state = self.node_states[row]
            unhealthy = state.inventory.unhealthy
            for task, grant in state.holders.values():
                if task.status is not TaskStatus.RELEASING and task.status not in FINISHED_STATUSES:
                    for card in sorted({use.card for uses in grant for use in uses} & unhealthy.keys()):
                        yield DeviceFault(self._names[row], unhealthy[card], task, IS_UNHEALTHY)

    def _pipelined_on(self, row: int) -> list[tuple[Task, Grant]]:
        return [(task, grant) for task, grant, at in self._pipelined.values() if at == row]

    def taken(self, task: Task) -> Grant | None:
        """Returns what this session allocated to a task."""
        return self._taken.get(task.uid)

    def excluded_cards(self, row: int, exclusion: ExclusionRule, *, later: bool) -> int:
        """Returns the mask of the cards of a node that excluded Pods hold or are pipelined to."""
        mask = 0
        inventory = self.node_states[row].inventory
        for task, grant in chain(self.holders(row, later=later), () if later else self._pipelined_on(row)):
            if exclusion.excludes(task, inventory):
                mask |= mask_of(grant)
        return mask

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self.claim(cls) is not None

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        claim = self.claim(task.cls)
        placement = None
        if row in self.node_states:
            eligible = self.family.eligible(claim, self.node_states[row].inventory)
            exclusion = self.exclusion(task.cls, job.key)
            if exclusion is not None:
                eligible &= ~self.excluded_cards(row, exclusion, later=pipelined)
            placement = self.family.place(self.usable(row, later=pipelined), claim, eligible)
        if placement is None:
            raise AllocationError(f"node {self._names[row]} has no {claim.description} for Pod {task.key}")
        grant, held = placement.grant, placement.held
        if pipelined:
            self._pipelined[task.uid] = (task, grant, row)
        else:
            self._taken[task.uid] = grant
            self._holders[row] = {**self._holders_on(row), task.uid: (task, grant)}
            self._now[row] = charge(self.cards(row, later=False), held)
        self._charge_later(row, held, 1)

    def _release(self, task: Task, row: int) -> None:
        if task.uid in self._pipelined:
            self._charge_later(row, self.held(task.cls, self._pipelined.pop(task.uid)[1]), -1)
            return
        grant = self._taken.pop(task.uid, None)
        if grant is not None:
            held = self.held(task.cls, grant)
            self._holders[row] = {uid: holder for uid, holder in self._holders_on(row).items() if uid != task.uid}
            self._now[row] = charge(self.cards(row, later=False), held, -1)
            self._charge_later(row, held, -1)

    def _evict(self, task: Task, row: int) -> Grant:
        """Returns what the Pod holds; nothing without a known allocation."""
        _, grant = self._holders_on(row).get(task.uid, (task, ())) if row in self.node_states else (task, ())
        if not grant:
            return ()
        held = self.held(task.cls, grant)
        self._charge_later(row, held, -1)
        return held

    def _restore(self, row: int, held: Grant) -> None:
        if held:
            self._charge_later(row, held, 1)

    def _charge_later(self, row: int, grant: Grant, sign: int) -> None:
        self._later[row] = charge(self.cards(row, later=True), grant, sign)
        self.log.append(row)


DEVICE_USAGE: Final = "deviceshare: usage"
"""Key of a list of DeviceUsage in ``session.shared``."""


class CardUsage(msgspec.Struct, frozen=True):
    """One GPU."""

    uuid: str
    node: str
    memory: int
    """Total memory."""
    used_memory: int
    used_cores: int
    pod_count: int
    """Number of Pods that use the GPU."""
    pods: dict[str, tuple[int, int]]
    """Name of a Pod -> (memory, cores). Pods with the same name in several namespaces are added up."""


class DeviceUsage:
    """The GPUs of one session after it has closed."""

    def __init__(self, ledger: CardLedger) -> None:
        self._ledger = ledger

    def cards(self) -> Iterator[CardUsage]:
        ledger = self._ledger
        for row, node_state in ledger.node_states.items():
            names = node_state.inventory.names
            pods: list[dict[str, tuple[int, int]]] = [{} for _ in names]
            pod_uids: list[set[str]] = [set() for _ in names]
            for task, grant in ledger.holders(row, later=False):
                for use in (use for uses in ledger.held(task.cls, grant) for use in uses):
                    memory, cores = pods[use.card].get(task.name, (0, 0))
                    pods[use.card][task.name] = (memory + use.memory, cores + use.cores)
                    pod_uids[use.card].add(task.uid)
            node, cards = ledger.node_name(row), ledger.cards(row, later=False)
            for i, card in enumerate(cards):
                used = (card.memory, card.used_memory, card.used_cores)
                yield CardUsage(names[i], node, *used, len(pod_uids[i]), pods[i])
