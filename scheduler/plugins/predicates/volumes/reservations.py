"""The volumes that are reserved for claims, by this session and by bindings that still wait for their preparations.

A reservation prevents that a volume is given to two claims. For a claim that several Pods share, the first Pod that is
placed makes the reservation, and the others use it. It is released when the last of them is removed from its node.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.api.decisions import Bind
from scheduler.plugins.predicates.volumes.pool import VolumePool
from scheduler.plugins.predicates.volumes.preparations import AwaitBinding, ProvisionVolume


@dataclass(slots=True)
class Reservation:
    """What is reserved for one claim."""

    volume: str
    """The name of the volume, or "" if one is provisioned."""
    node: str
    """The node for which the volume is provisioned, or "" if it exists."""
    tasks: set[str] = field(default_factory=set)
    """The uids of the tasks of this session that use the reservation."""
    permanent: bool = False
    """Whether it was made before this session, which then never releases it."""


class VolumeReservations:
    """The reservations of a session, by claim (``namespace/name``)."""

    def __init__(self, preparing: Iterable[Bind]) -> None:
        self.version = 0
        """Increases whenever a volume is reserved or released."""
        self._reservations: dict[str, Reservation] = {}
        self._of_task: dict[str, list[str]] = {}
        self._pool: VolumePool | None = None
        for bind in preparing:
            for preparation in bind.preparations:
                key = f"{preparation.namespace}/{preparation.name}"
                if isinstance(preparation, AwaitBinding):
                    self._reservations[key] = Reservation(preparation.volume, "", permanent=True)
                elif isinstance(preparation, ProvisionVolume):
                    self._reservations[key] = Reservation("", preparation.selected, permanent=True)

    def get(self, claim: str) -> Reservation | None:
        return self._reservations.get(claim)

    def track(self, pool: VolumePool) -> None:
        """Marks the reserved volumes in the pool, and keeps the marks current."""
        self._pool = pool
        for reservation in self._reservations.values():
            self._mark(reservation.volume, True)

    def add(self, claim: str, volume: str, node: str, task: str) -> None:
        """Reserves an existing volume for a claim, or (``volume`` is "") a volume that is provisioned for a node.
        ``task`` uses the reservation."""
        self._reservations[claim] = Reservation(volume, node)
        self._mark(volume, True)
        self.add_user(claim, task)

    def add_user(self, claim: str, task: str) -> None:
        """Registers a task as a user of a claim's reservation, if the claim has one."""
        reservation = self._reservations.get(claim)
        if reservation is not None and task not in reservation.tasks:
            reservation.tasks.add(task)
            self._of_task.setdefault(task, []).append(claim)

    def release(self, task: str) -> None:
        """Removes a task from all reservations, and releases those without users."""
        for claim in self._of_task.pop(task, ()):
            reservation = self._reservations[claim]
            reservation.tasks.discard(task)
            if not reservation.tasks and not reservation.permanent:
                del self._reservations[claim]
                self._mark(reservation.volume, False)

    def _mark(self, volume: str, reserved: bool) -> None:
        rank = self._pool.rank.get(volume) if self._pool is not None else None
        if self._pool is not None and rank is not None:
            self._pool.reserved[rank] = reserved
            self.version += 1
