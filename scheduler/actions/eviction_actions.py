"""The actions that evict, side by side: preempt, reclaim, gangpreempt, gangreclaim and shuffle.

All but shuffle are policies of one search (``eviction.solver``): who may give, who must not, in what order the search
tries nodes and victims, and how much is enough for a job. The preemptor is pipelined until its victims have terminated,
and its Pods get their nodes as nominated. A job that needs no eviction is left to allocate. Under every policy that
takes from other queues, and under shuffle, no queue falls below what it deserves while another one can give
(``eviction.guard``).
"""

from typing import ClassVar, Final

from msgspec import structs

from scheduler.actions.eviction.bundles import by_job_order, by_victim_queue_order
from scheduler.actions.eviction.guard import DeservedGuard, KeptTasks
from scheduler.actions.eviction.policy import (
    DEFAULT_MAX_DOMAINS,
    BundleOrder,
    Enough,
    EvictionPolicy,
    NodeComparison,
    VictimNodeOrder,
)
from scheduler.actions.eviction.solver import serve_starving_jobs
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED, EVENT_RECLAIMED, TRUE
from scheduler.api.names import PREEMPTABLE as PREEMPTABLE_KEY
from scheduler.api.node import Mask
from scheduler.api.queue import Queue
from scheduler.api.task import TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import (
    JOB_STARVING,
    PREEMPTABLE,
    PREEMPTIVE,
    RECLAIMABLE,
    UNIFIED_EVICTABLE,
    VICTIM_TASKS,
)
from scheduler.framework.registry import register_action
from scheduler.framework.session import Session


# --- who may give: of which queues ---
def own_queue(session: Session, queue: Queue) -> Mask:
    """Returns the preemptable tasks of a queue."""
    candidates = session.eviction_candidates
    return candidates.preemptable & candidates.of_queues(queue.name.__eq__)


def other_queues(session: Session, queue: Queue) -> Mask:
    """Returns the running, preemptable tasks of other queues that are reclaimable."""

    def loses(name: str) -> bool:
        other = session.queues.get(name)
        return other is not None and other is not queue and other.reclaimable

    candidates = session.eviction_candidates
    return candidates.running & candidates.preemptable & candidates.of_queues(loses)


# --- who may give: of which jobs ---
def other_jobs(session: Session, job: Job) -> Mask:
    """Returns the tasks of other jobs."""
    return ~session.eviction_candidates.own(job.key)


def same_job(session: Session, job: Job) -> Mask:
    """Returns the tasks of the job itself."""
    return session.eviction_candidates.own(job.key)


def less_important_jobs(session: Session, job: Job) -> Mask:
    """Returns the tasks of jobs of lower priority."""
    lower: Mask = session.eviction_candidates.per_job(_priority) < job.priority
    return lower


def permissive_jobs(session: Session, job: Job) -> Mask:
    """Returns the tasks of jobs whose PodGroup does not say ``volcano.sh/preemptable: false``."""
    allowed: Mask = session.eviction_candidates.per_job(_is_permissive).astype(bool)
    return allowed


def _priority(job: Job) -> int:
    return job.priority


def _is_permissive(job: Job) -> bool:
    text = job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY))
    return text is None or text in TRUE


# --- policies ---
PREEMPT: Final = EvictionPolicy(
    action="preempt",
    event=EVENT_PREEMPTED,
    serves=lambda job: not job.has_topology,  # single nodes anywhere in the network are of no use to others
    from_queues=own_queue,
    from_jobs=(other_jobs,),
    best_effort_apart=True,
    approval=PREEMPTABLE,
    across_queues=False,
    order=VictimNodeOrder(by_score=True),
    enough=Enough.JOB,
)
"""Starving jobs evict tasks of other jobs in their queue."""

PREEMPT_WITHIN_JOB: Final = structs.replace(PREEMPT, from_jobs=(same_job,), enough=Enough.TASK)
"""Then each of their tasks evicts other tasks of its job, as long as that succeeds."""

RECLAIM: Final = EvictionPolicy(
    action="reclaim",
    event=EVENT_RECLAIMED,
    from_queues=other_queues,
    approval=RECLAIMABLE,
    across_queues=True,
    order=VictimNodeOrder(by_score=False),
    enough=Enough.JOB,
    asked_of_jobs=(RECLAIMABLE, JOB_STARVING, PREEMPTIVE),
)
"""Queues below what they deserve (OVERUSED, PREEMPTIVE) evict running tasks of other queues for their starving jobs."""

GANG_PREEMPT: Final = EvictionPolicy(
    action="gangpreempt",
    event=EVENT_PREEMPTED,
    from_queues=own_queue,
    from_jobs=(less_important_jobs, permissive_jobs),
    approval=UNIFIED_EVICTABLE,
    across_queues=False,
    order=BundleOrder(by_job_order),
    enough=Enough.GANG,
)
"""Starving gangs evict tasks that less important gangs of their queue can spare, and break a gang only if these are not
enough. Unlike with preempt, there is room for the whole gang before a task is evicted."""

GANG_RECLAIM: Final = EvictionPolicy(
    action="gangreclaim",
    event=EVENT_RECLAIMED,
    from_queues=other_queues,
    from_jobs=(permissive_jobs,),
    approval=UNIFIED_EVICTABLE,
    across_queues=True,
    order=BundleOrder(by_victim_queue_order),
    enough=Enough.GANG,
)
"""Queues below what they deserve evict running tasks of other queues for a whole starving gang at a time."""


# --- actions ---
@register_action
class Preempt:
    """Evicts tasks in favour of starving jobs of their queue. Jobs with a network topology do not preempt.

    Argument ``enableTopologyAwarePreemption`` (default false): choose the node with the cheapest victims among several
    (``minCandidateNodesPercentage`` 10, ``minCandidateNodesAbsolute`` 1, ``maxCandidateNodesAbsolute`` 100) instead of
    the node with the highest score.
    """

    name: ClassVar[str] = PREEMPT.action

    def __init__(self, arguments: Arguments) -> None:
        comparison = NodeComparison(
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
        )
        compares = arguments.boolean("enableTopologyAwarePreemption", False)
        order = VictimNodeOrder(by_score=True, comparison=comparison if compares else None)
        self._policies = [structs.replace(policy, order=order) for policy in (PREEMPT, PREEMPT_WITHIN_JOB)]

    def execute(self, session: Session) -> None:
        serve_starving_jobs(session, *self._policies)


@register_action
class Reclaim:
    """Evicts running tasks of other queues in favour of starving jobs."""

    name: ClassVar[str] = RECLAIM.action

    def execute(self, session: Session) -> None:
        serve_starving_jobs(session, RECLAIM)


@register_action
class GangPreempt:
    """Evicts bundles of tasks in favour of starving gangs of their queue.

    Arguments: ``maxDomains`` (default 8, also for a number below 1), the number of domains that are searched at most;
    ``allowWholeBundle`` (default true), whether gangs may be broken.
    """

    name: ClassVar[str] = GANG_PREEMPT.action

    def __init__(self, arguments: Arguments) -> None:
        self._policy = _with_arguments(GANG_PREEMPT, arguments)

    def execute(self, session: Session) -> None:
        serve_starving_jobs(session, self._policy)


@register_action
class GangReclaim:
    """Evicts bundles of running tasks of other queues in favour of starving gangs. It takes the arguments of
    ``GangPreempt``."""

    name: ClassVar[str] = GANG_RECLAIM.action

    def __init__(self, arguments: Arguments) -> None:
        self._policy = _with_arguments(GANG_RECLAIM, arguments)

    def execute(self, session: Session) -> None:
        serve_starving_jobs(session, self._policy)


def _with_arguments(policy: EvictionPolicy, arguments: Arguments) -> EvictionPolicy:
    maximum = arguments.integer("maxDomains", DEFAULT_MAX_DOMAINS)
    order = structs.replace(
        policy.order,
        max_domains=maximum if maximum > 0 else DEFAULT_MAX_DOMAINS,
        break_gangs=arguments.boolean("allowWholeBundle", True),
    )
    return structs.replace(policy, order=order)


@register_action
class Shuffle:
    """Evicts the running tasks that plugins name (VICTIM_TASKS). It reserves their resources for no other task.

    Who may give: all tasks that run on a known node. Who must not: ``KeptTasks``; plugins do not see these, so they
    name others. In what order: that of the plugins. How much is enough: all that they name.
    """

    name: ClassVar[str] = "shuffle"

    def execute(self, session: Session) -> None:
        index = session.nodes.index
        running = [t for job in session.jobs.values() for t in job.of(TaskStatus.RUNNING).values() if t.node in index]
        guard = session.once(DeservedGuard)
        kept = KeptTasks(session, guard) if guard.active and session.functions(VICTIM_TASKS) else None
        statement = session.statement()
        for task in session.victim_tasks(running if kept is None else kept.without_kept(running)):
            if kept is None or not kept.keeps(task):
                statement.evict(session.jobs[task.job], task, self.name)
        statement.commit()
