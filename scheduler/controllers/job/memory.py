"""What the controller remembers of a job between two looks. All of it can be lost: the objects tell what is to be done,
and memory only saves telling or writing something twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api import batch
from scheduler.api.batch import Action
from scheduler.api.decisions import EventPost
from scheduler.controllers.effects import Json
from scheduler.controllers.job.blueprint import Blueprint
from scheduler.controllers.job.delays import Delays, scope
from scheduler.controllers.job.events import Request
from scheduler.controllers.job.plugins.contract import JobPlugin


@dataclass(frozen=True, slots=True)
class Order:
    """An action to carry out, and who asks for it."""

    action: Action
    request: Request | None = None

    @property
    def aimless(self) -> bool:
        """A partition is to be restarted, and what gave rise to it is in none: nothing is done, as in Volcano."""
        return self.action is Action.RESTART_PARTITION and (self.request is None or not self.request.partition)


@dataclass(slots=True)
class Memory:
    """Of one job."""

    job_uid: str
    requests: list[Request] = field(default_factory=list)
    """What happened since the last look, in order."""
    orders: list[Order] = field(default_factory=list)
    """Actions that policies ask for, in order."""
    in_hand: Order | None = None
    """The one that the last look set out to carry out."""
    delays: Delays = field(default_factory=Delays)
    blueprint: Blueprint | None = None
    plugins: Mapping[str, JobPlugin] | None = None
    """For this version of the spec; None: not made yet."""
    group_spec: Json = field(default_factory=dict)
    """The PodGroup's, for this version of the spec."""
    refreshed: bool = False
    """What plugins brought was brought up to date for this version of the spec."""
    written: float = float("-inf")
    """When the status was last written, in seconds since the epoch."""
    stale: float | None = None
    """Since when the counts in the status are out of date."""
    failures: int = 0
    """Looks in a row of which some write failed."""
    action: Action = Action.SYNC_JOB
    """What the last look tried."""
    news: list[EventPost] = field(default_factory=list)
    """Events to post with the next plan."""
    told: dict[str, str] = field(default_factory=dict)
    """What it is about -> the message last posted."""

    def add(self, order: Order) -> None:
        """Take an order, unless the same is waiting."""
        wanted = (order.action, scope(order.action, order.request))
        if all((other.action, scope(other.action, other.request)) != wanted for other in self.orders):
            self.orders.append(order)

    def settled(self) -> None:
        """The order in hand is in the status: what remains to be done of it follows from there."""
        self.orders = [order for order in self.orders if order is not self.in_hand]
        self.in_hand = None

    def understand(self, job: batch.Job) -> tuple[Blueprint, bool]:
        """The blueprint of the job's spec, and whether it is new."""
        known = self.blueprint
        if known is not None and (known.spec is job.spec or known.spec == job.spec):
            known.spec = job.spec  # so that the next look compares no more than two references
            return known, False
        self.blueprint = Blueprint(job)
        self.plugins, self.refreshed = None, False
        return self.blueprint, True
