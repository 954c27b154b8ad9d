# ruff: noqa: N802  # An extension point is a constant; its declaration is a function.
# mypy: disable-error-code="empty-body"
"""Extension points: the kinds of functions that plugins register, and how the answers of several plugins are combined.

An extension point is declared as the function that a plugin registers: its parameters, its answer and its meaning.
``PluginSession`` has the registering method of each: that of JOB_READY is ``add_job_ready``. It has the type and the
docstring of the declaration.

A few combinators cover them all (Volcano's session_plugins.go writes each of these loops some ten times):

* FIRST    the first answer that is not None decides
* KEY      the answers form one key, compared part by part
* ALL      every plugin must agree
* TIER     every plugin of the first tier with a function must agree; no if there is no function
* VOTE     one rejection decides; a permission decides at the end of its tier; yes if all abstain
* MAX      the largest number, at least 0
* MIN      the smallest number; no function is called after a 0
* SUM      the sum
* VICTIMS  the intersection of the lists of a tier; the first tier with a result decides
* UNION    the union of the lists of a tier; the first tier with a result decides
* CHAIN    each function gets what the functions before it returned
* EACH     all answers, not combined
* CALL     all functions are called; no answer
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from scheduler.api.device_states import Device, DeviceFault
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.preparation import Preparation
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Filter, Score
from scheduler.framework.figures import CardsByUser, Figures, QueueUsage

F = TypeVar("F", bound=Callable[..., Any])
F_co = TypeVar("F_co", bound=Callable[..., Any], covariant=True)


class Combine(Enum):
    FIRST = "first"
    KEY = "key"
    ALL = "all"
    TIER = "tier"
    VOTE = "vote"
    MAX = "max"
    MIN = "min"
    SUM = "sum"
    VICTIMS = "victims"
    UNION = "union"
    CHAIN = "chain"
    EACH = "each"
    CALL = "call"


class EvictionContext(msgspec.Struct, frozen=True):
    """The gang for which gangpreempt or gangreclaim evicts tasks."""

    job: Job
    request: Vector
    """The sum of the requests of its tasks."""
    across_queues: bool
    """Whether tasks of other queues are evicted (gangreclaim), or tasks of less important jobs in its queue
    (gangpreempt)."""


class Protection(Enum):
    """What a queue keeps when its tasks are evicted for another queue. The members are ordered from the strictest: a
    weaker one is used only if no evictions are possible under those before it."""

    REQUESTED = "requested"
    """What it deserves of every resource that is requested."""
    LACKING = "lacking"
    """What it deserves of every requested resource that lacks on the node."""
    ABOVE = "above"
    """It loses tasks as long as it holds more than it deserves of such a resource; the last of them may take it
    below."""


class ReclaimContext(msgspec.Struct, frozen=True):
    """The purpose for which tasks of other queues are evicted."""

    job: Job | None
    """The job that gets their place; None: no job in particular (shuffle)."""
    classes: tuple[TaskClass, ...]
    """The classes of the tasks of the job that are to be placed."""
    request: Vector | None
    """The sum of their requests. None, without a job: every resource counts as requested."""
    lacking: Mask
    """Shape (resources, nodes): the requested resources of which a node has too little."""
    protection: Protection
    gang: bool = False
    """Whether gangs are evicted as a whole, including their tasks that hold nothing that is requested."""


class Vote(Enum):
    """The answer of one plugin at a point where plugins vote."""

    PERMIT = 1
    ABSTAIN = 0
    REJECT = -1


class ExtensionPoint(msgspec.Struct, frozen=True, eq=False):
    """One kind of function that plugins register. Points are compared by identity, so that looking one up is cheap."""

    name: str
    """The name in messages: ``JobReady``."""
    method: str
    """The method of ``PluginSession`` that registers functions: ``add_job_ready``."""
    flag: str
    """The flag that disables the function of a plugin; "": there is none."""
    combine: Combine
    takes: tuple[str, ...]
    """The types of the parameters, in order."""
    answer: str
    """The type of an answer."""
    gives: tuple[type, ...]
    """The classes of an answer that are checked, with FIRST and EACH; the other combinators imply them. With FIRST an
    answer may also be None."""
    meaning: str
    """The docstring of the declaration."""


class TypedExtensionPoint(ExtensionPoint, Generic[F_co], frozen=True, eq=False):
    """An extension point whose functions have the type F_co."""


def extension_point(flag: str, combine: Combine, gives: tuple[type, ...] = ()) -> Callable[[F], TypedExtensionPoint[F]]:
    """Decorator that makes an extension point of the declaration of its functions. The parameters are those of
    ``ExtensionPoint``."""

    def declared(declaration: F) -> TypedExtensionPoint[F]:
        constant, types = declaration.__name__, dict(declaration.__annotations__)
        name = "".join(word.capitalize() for word in constant.split("_"))
        answer, meaning = types.pop("return"), inspect.cleandoc(declaration.__doc__ or "")
        method, takes = f"add_{constant.lower()}", tuple(types.values())
        return TypedExtensionPoint(name, method, flag, combine, takes, answer, gives, meaning)

    return declared


# --- orders ---
@extension_point("enableJobOrder", Combine.KEY)
def JOB_ORDER(job: Job, /) -> Any:
    """Returns the key of a job, which can be compared; the job with the smaller key is scheduled first."""


@extension_point("enableQueueOrder", Combine.KEY)
def QUEUE_ORDER(queue: Queue, /) -> Any:
    """Returns the key of a queue, which can be compared; the queue with the smaller key is scheduled first."""


@extension_point("", Combine.KEY)
def VICTIM_QUEUE_ORDER(queue: Queue, of_preemptor: Queue, /) -> Any:
    """Returns the key of a queue when tasks are evicted for another queue; tasks of the queue with the smaller key are
    evicted first."""


@extension_point("enableTaskOrder", Combine.KEY)
def TASK_ORDER(task: Task, /) -> Any:
    """Returns the key of a task, which can be compared; the task with the smaller key is placed first within its
    job."""


@extension_point("enabledSubJobOrder", Combine.KEY)
def SUB_JOB_ORDER(sub_job: SubJob, /) -> Any:
    """Returns the key of a sub-job, which can be compared; the sub-job with the smaller key is placed first within its
    job."""


# --- jobs ---
@extension_point("", Combine.FIRST, (Refusal,))
def JOB_VALID(job: Job, /) -> Refusal | None:
    """Returns a Refusal if the job cannot be scheduled as it is, else None."""


@extension_point("enableJobReady", Combine.MAX)
def JOB_READY(job: Job, /) -> int:
    """Returns 0 if enough tasks of the job are placed to start, else a lower bound of the number of tasks that must
    still be placed."""


@extension_point("enableJobPipelined", Combine.VOTE)
def JOB_PIPELINED(job: Job, /) -> Vote:
    """Votes whether the job would be ready once releasing resources are free."""


@extension_point("enableJobStarving", Combine.TIER)
def JOB_STARVING(job: Job, /) -> bool:
    """Returns whether the job may evict tasks of other jobs."""


@extension_point("enabledSubJobReady", Combine.MAX)
def SUB_JOB_READY(sub_job: SubJob, /) -> int:
    """Returns for a sub-job what a function of JOB_READY returns for a job."""


@extension_point("enabledSubJobPipelined", Combine.VOTE)
def SUB_JOB_PIPELINED(sub_job: SubJob, /) -> Vote:
    """Votes whether the sub-job would be ready once releasing resources are free."""


@extension_point("enableJobEnqueued", Combine.VOTE)
def JOB_ENQUEUEABLE(job: Job, /) -> Vote:
    """Votes whether the PodGroup may enter its queue, so that its Pods may be created."""


@extension_point("enableJobEnqueued", Combine.CALL)
def JOB_ENQUEUED(job: Job, /) -> object:
    """Is called when the PodGroup has entered its queue."""


@extension_point("", Combine.CALL)
def UNGATED(job: Job, tasks: Sequence[Task], /) -> object:
    """Is called when the scheduling gate of queue admission is removed from tasks of one class."""


# --- quotas ---
@extension_point("enabledOverused", Combine.FIRST, (Refusal,))
def OVERUSED(queue: Queue, /) -> Refusal | None:
    """Returns a Refusal if the queue may not get more and is skipped for the rest of the session, else None."""


@extension_point("enabledAllocatable", Combine.MIN)
def ALLOCATABLE(queue: Queue, job: Job, cls: TaskClass, /) -> int:
    """Returns how many more tasks of a class the queue may get; a negative number counts as 0, since a queue may hold
    more than its limit. If it returns 0, it calls ``refuse`` for the job; otherwise the reason has only the name of the
    plugin. Terminating tasks need not be counted, since tasks can be pipelined onto their resources (see
    ALLOCATABLE_NOW). On a node they count until they exit (see ``node_limit``)."""


@extension_point("enabledAllocatable", Combine.MIN)
def ALLOCATABLE_NOW(queue: Queue, job: Job, cls: TaskClass, /) -> int:
    """Returns how many of the tasks that ALLOCATABLE permits may be bound while terminating tasks still hold resources.
    The others can be pipelined."""


@extension_point("enablePreemptive", Combine.ALL)
def PREEMPTIVE(queue: Queue, tasks: Sequence[Task], /) -> bool:
    """Returns whether the queue may reclaim from other queues what these tasks need."""


# --- nodes and HyperNodes ---
@extension_point("enablePredicate", Combine.EACH, (Sequence,))
def FILTER(cls: TaskClass, /) -> Sequence[Filter]:
    """Returns the Filters that decide on which nodes tasks of a class may run. It is called once per class."""


@extension_point("enableNodeOrder", Combine.EACH, (Sequence,))
def SCORE(cls: TaskClass, /) -> Sequence[Score]:
    """Returns the Scores that rank the nodes for tasks of a class. It is called once per class."""


@extension_point("enableBestNode", Combine.FIRST, (int, np.integer))
def BEST_NODE(cls: TaskClass, rows: Rows, scores: Column, /) -> int | None:
    """Returns one of the rows of candidate nodes, or None for the one with the best score."""


@extension_point("", Combine.FIRST, (Sequence,))
def NODE_ASSIGNMENT(job: Job, tasks: Sequence[Task], rows: Sequence[int], /) -> Sequence[int] | None:
    """Returns the rows of the nodes that were chosen for tasks of one class, in another order: ``tasks[i]`` gets the
    i-th. None: as they are."""


@extension_point("enabledHyperNodeOrder", Combine.SUM)
def HYPER_NODE_ORDER(sub_job: SubJob, hyper_nodes: Sequence[HyperNode], /) -> Column:
    """Returns the score of each HyperNode for a sub-job."""


@extension_point("enabledHyperNodeGradient", Combine.FIRST, (Sequence,))
def HYPER_NODE_GRADIENT(target: Job | SubJob, within: HyperNode, evict: bool, /) -> list[list[HyperNode]] | None:
    """Returns the HyperNodes within a HyperNode that may take the tasks of a job or sub-job, the nearest first: one
    list per network distance. ``evict``: tasks there may be evicted."""


# --- evictions ---
@extension_point("enablePreemptable", Combine.VICTIMS)
def PREEMPTABLE(preemptor: Task, candidates: Sequence[Task], /) -> Sequence[Task] | None:
    """Returns the candidates that may be evicted for a task in the same queue, or None to abstain. Candidates are tasks
    of one node, in the order of eviction. If a task alone is refused, it is refused among other tasks as well."""


@extension_point("enableReclaimable", Combine.VICTIMS)
def RECLAIMABLE(reclaimer: Task, candidates: Sequence[Task], /) -> Sequence[Task] | None:
    """Returns the candidates that may be evicted for a task in another queue, or None to abstain. The rules for
    PREEMPTABLE apply."""


@extension_point("", Combine.CHAIN)
def UNIFIED_EVICTABLE(context: EvictionContext, candidates: Sequence[Task], /) -> Sequence[Task]:
    """Returns the candidates that gangpreempt and gangreclaim may evict for a gang. Candidates are tasks of any nodes,
    in the order of eviction; the answer for a task depends only on the tasks before it."""


@extension_point("", Combine.CHAIN)
def KEEPS_DESERVED(context: ReclaimContext, candidates: Sequence[Task], /) -> Sequence[Task]:
    """Returns the candidates whose eviction, in this order, leaves their queues what the context says; for plugins that
    divide the cluster among queues. It is called before every eviction from another queue, whatever the tiers of
    RECLAIMABLE answer. The answer for a candidate depends only on those before it, the queue of the job, the classes
    and the request."""


@extension_point("enabledVictim", Combine.UNION)
def VICTIM_TASKS(tasks: Sequence[Task], /) -> Sequence[Task] | None:
    """Returns the tasks that shuffle evicts."""


@extension_point("enabledVictim", Combine.CHAIN)
def VICTIM_LIMIT(tasks: Sequence[Task], /) -> Sequence[Task]:
    """Returns the victims of shuffle that may be evicted."""


# --- bindings and reports ---
@extension_point("", Combine.EACH, (Mapping,))
def BIND_ANNOTATIONS(task: Task, row: int, /) -> Mapping[str, str]:
    """Returns the annotations that the binding call writes to the Pod. ``row``: that of its node."""


@extension_point("", Combine.EACH, (Mapping,))
def CARDS(job: Job, cls: TaskClass, rows: Sequence[int], /) -> Mapping[int, Mapping[str, str]]:
    """Returns row -> resource -> the card that is charged to the queue; part of the binding record. Rows without a
    charge are left out."""


@extension_point("", Combine.EACH, (Iterable,))
def PREPARATIONS(task: Task, row: int, /) -> Iterable[Preparation]:
    """Returns the Preparations of other objects that the binding of a task to a row waits for."""


@extension_point("", Combine.EACH, (Mapping,))
def QUEUE_USAGE(queue: Queue, /) -> Mapping[str, QueueUsage]:
    """Returns the usage of each name that the plugin limits, such as a card model. It is shown wherever resources of
    queues are: in their status, in metrics and by the command line."""


@extension_point("", Combine.EACH, (Mapping,))
def CARDS_IN_USE() -> CardsByUser:
    """Returns the cards that Pods use, by queue, namespace and workload, for metrics."""


@extension_point("", Combine.EACH, (Iterable,))
def NODE_DEVICES() -> Iterable[Device]:
    """Returns the devices of nodes and their state, for reports."""


@extension_point("", Combine.EACH, (Iterable,))
def DEVICE_FAULTS() -> Iterable[DeviceFault]:
    """Returns the devices that do not work although Pods use them, for conditions and Events. It is called when the
    session is closed."""


@extension_point("", Combine.EACH, (Iterable,))
def HELD_AMOUNTS() -> Iterable[tuple[Task, Mapping[str, int]]]:
    """Returns (task, resource -> amount in units of the resource) of tasks that hold other amounts than they request,
    for ``status.allocated`` of queues."""


@extension_point("", Combine.EACH, (Mapping,))
def DESERVED() -> Mapping[str, Vector]:
    """Returns queue -> the amounts that it deserves, of a plugin that divides the cluster among queues. They are shown
    in place of those of the spec, in the status of queues, in metrics and by the command line."""


@extension_point("", Combine.EACH, (Figures,))
def FIGURES() -> Figures:
    """Returns the shares and limits of queues, jobs and namespaces among which the plugin divides the cluster, for
    metrics."""


@extension_point("", Combine.CALL)
def CLOSE() -> object:
    """Is called after the actions, before statuses are computed; plugins write conditions."""


POINTS = [value for value in list(globals().values()) if isinstance(value, ExtensionPoint)]
ENABLE_HIERARCHY = "enableHierarchy"
"""Queues form a hierarchy (capacity, drf, nodegroup). This is the only flag that is off by default."""
ENABLE_NAMESPACE_ORDER = "enableNamespaceOrder"
"""Namespaces get fair shares (drf)."""
_UNUSED_FLAGS = frozenset({"enabledClusterOrder", "enableReservedNodes", "enableTargetJob"})
"""Flags of Volcano for functions that none of its actions calls."""
FLAGS = frozenset({p.flag for p in POINTS if p.flag} | _UNUSED_FLAGS | {ENABLE_HIERARCHY, ENABLE_NAMESPACE_ORDER})
