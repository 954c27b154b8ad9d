"""Extension points: the kinds of functions that plugins register, and how the answers of several plugins are combined.

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

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Vector
from scheduler.api.task import TaskClass
from scheduler.framework.figures import Figures


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
    """One kind of function that plugins register. The registering method of a session is named ``add_`` and the name of
    the constant in lower case. Points are compared by identity, so that looking one up is cheap."""

    name: str
    flag: str
    """The flag that disables the function of a plugin; "": there is none."""
    combine: Combine
    takes: tuple[str, ...] = ()
    """The types of the parameters, in order."""
    gives: tuple[type, ...] = ()
    """The types of an answer, with FIRST and EACH; the other combinators imply it. With FIRST it may also be None."""


JOB_ORDER = ExtensionPoint("JobOrder", "enableJobOrder", Combine.KEY, ("Job",))
"""key(job): comparable; the smaller is scheduled first."""
QUEUE_ORDER = ExtensionPoint("QueueOrder", "enableQueueOrder", Combine.KEY, ("Queue",))
"""key(queue): comparable; the smaller is scheduled first."""
VICTIM_QUEUE_ORDER = ExtensionPoint("VictimQueueOrder", "", Combine.KEY, ("Queue", "Queue"))
"""key(queue, queue of the preemptor): comparable; tasks of the smaller are evicted first."""
TASK_ORDER = ExtensionPoint("TaskOrder", "enableTaskOrder", Combine.KEY, ("Task",))
"""key(task): comparable; the smaller is placed first within its job."""
SUB_JOB_ORDER = ExtensionPoint("SubJobOrder", "enabledSubJobOrder", Combine.KEY, ("SubJob",))
"""key(sub-job): comparable; the smaller sub-group is placed first within its job."""

JOB_VALID = ExtensionPoint("JobValid", "", Combine.FIRST, ("Job",), (Refusal,))
"""check(job): a Refusal if the job cannot be scheduled as it is, else None."""
JOB_READY = ExtensionPoint("JobReady", "enableJobReady", Combine.MAX, ("Job",))
"""missing(job): 0 if enough tasks are placed to start, else a lower bound of the number of tasks that are missing."""
JOB_PIPELINED = ExtensionPoint("JobPipelined", "enableJobPipelined", Combine.VOTE, ("Job",))
"""vote(job): whether the job would be ready once releasing resources are free."""
JOB_STARVING = ExtensionPoint("JobStarving", "enableJobStarving", Combine.TIER, ("Job",))
"""test(job): whether the job may evict tasks of other jobs."""
SUB_JOB_READY = ExtensionPoint("SubJobReady", "enabledSubJobReady", Combine.MAX, ("SubJob",))
"""missing(sub-job): what JobReady returns about a job, for one sub-group."""
SUB_JOB_PIPELINED = ExtensionPoint("SubJobPipelined", "enabledSubJobPipelined", Combine.VOTE, ("SubJob",))
"""vote(sub-job): whether the sub-group would be ready once releasing resources are free."""
JOB_ENQUEUEABLE = ExtensionPoint("JobEnqueueable", "enableJobEnqueued", Combine.VOTE, ("Job",))
"""vote(job): whether the PodGroup may enter its queue, so that its Pods may be created."""
JOB_ENQUEUED = ExtensionPoint("JobEnqueued", "enableJobEnqueued", Combine.CALL, ("Job",))
"""note(job): called when the job is admitted."""
UNGATED = ExtensionPoint("Ungated", "", Combine.CALL, ("Job", "Sequence[Task]"))
"""note(job, tasks): called when the scheduling gate of queue admission is removed from tasks of one class."""

OVERUSED = ExtensionPoint("Overused", "enabledOverused", Combine.FIRST, ("Queue",), (Refusal,))
"""test(queue): a Refusal if the queue may not get more and is skipped for this session, else None."""
ALLOCATABLE = ExtensionPoint("Allocatable", "enabledAllocatable", Combine.MIN, ("Queue", "Job", "TaskClass"))
"""room(queue, job, class): how many more tasks of the class the queue may get (0: none). Terminating tasks need not be
counted, since tasks can be pipelined onto their resources; see ALLOCATABLE_NOW."""
ALLOCATABLE_NOW = ExtensionPoint("AllocatableNow", "enabledAllocatable", Combine.MIN, ("Queue", "Job", "TaskClass"))
"""room(queue, job, class): how many of these may be bound while terminating tasks still hold resources (0: none). The
others can be pipelined."""
PREEMPTIVE = ExtensionPoint("Preemptive", "enablePreemptive", Combine.ALL, ("Queue", "Sequence[Task]"))
"""test(queue, tasks): whether the queue may reclaim resources for these tasks from other queues."""

FILTER = ExtensionPoint("Filter", "enablePredicate", Combine.EACH, ("TaskClass",), (Sequence,))
"""filters(class): the Filters that decide on which nodes tasks of the class may run. The result is kept for the class.
A function that depends on more declares it when it is registered, and receives it (see ``Registration.add_filter``)."""
SCORE = ExtensionPoint("Score", "enableNodeOrder", Combine.EACH, ("TaskClass",), (Sequence,))
"""scores(class): the Scores that rank the nodes for tasks of the class; kept like Filters."""
BEST_NODE = ExtensionPoint(
    "BestNode", "enableBestNode", Combine.FIRST, ("TaskClass", "Rows", "Column"), (int, np.integer)
)
"""choose(class, rows, scores): one of the candidate rows, or None."""
NODE_ASSIGNMENT = ExtensionPoint(
    "NodeAssignment", "", Combine.FIRST, ("Job", "Sequence[Task]", "Sequence[int]"), (Sequence,)
)
"""assign(job, tasks, rows): the rows of the nodes that were chosen for tasks of one class, in another order:
``tasks[i]`` gets the i-th. None: as they are."""
HYPER_NODE_ORDER = ExtensionPoint(
    "HyperNodeOrder", "enabledHyperNodeOrder", Combine.SUM, ("SubJob", "Sequence[HyperNode]")
)
"""scores(sub-job, HyperNodes): the score of each HyperNode; a column."""
HYPER_NODE_GRADIENT = ExtensionPoint(
    "HyperNodeGradient", "enabledHyperNodeGradient", Combine.FIRST, ("Job | SubJob", "HyperNode", "bool"), (Sequence,)
)
"""gradients(job or sub-job, within, evict): see ``Session.gradients``."""

PREEMPTABLE = ExtensionPoint("Preemptable", "enablePreemptable", Combine.VICTIMS, ("Task", "Sequence[Task]"))
"""victims(preemptor, candidates): the candidates that may be evicted within the queue, or None to abstain. Candidates
are tasks of one node, in the order of eviction. If a task alone is refused, it is refused among other tasks as well.
``add_preemptable`` says on what properties of the preemptor the answer may depend."""
RECLAIMABLE = ExtensionPoint("Reclaimable", "enableReclaimable", Combine.VICTIMS, ("Task", "Sequence[Task]"))
"""victims(reclaimer, candidates): the candidates in other queues that may be evicted, or None to abstain. The rules for
PREEMPTABLE apply."""
UNIFIED_EVICTABLE = ExtensionPoint("UnifiedEvictable", "", Combine.CHAIN, ("EvictionContext", "Sequence[Task]"))
"""evictable(context, candidates): the candidates that may be evicted for a gang. Candidates are tasks of any nodes, in
the order of eviction; the answer for a task depends only on the tasks before it."""
KEEPS_DESERVED = ExtensionPoint("KeepsDeserved", "", Combine.CHAIN, ("ReclaimContext", "Sequence[Task]"))
"""losses(context, candidates): the candidates whose eviction, in this order, leaves their queues what the context says.
It is called before every eviction from another queue, whatever the tiers of RECLAIMABLE answer. The answer for a
candidate depends only on those before it."""
VICTIM_TASKS = ExtensionPoint("VictimTasks", "enabledVictim", Combine.UNION, ("Sequence[Task]",))
"""victims(tasks): the tasks that shuffle evicts."""
VICTIM_LIMIT = ExtensionPoint("VictimLimit", "enabledVictim", Combine.CHAIN, ("Sequence[Task]",))
"""allowed(tasks): the victims of shuffle that may be evicted."""

BIND_ANNOTATIONS = ExtensionPoint("BindAnnotations", "", Combine.EACH, ("Task", "int"), (Mapping,))
"""annotations(task, row): the annotations that the binding call writes to the Pod."""
CARDS = ExtensionPoint("Cards", "", Combine.EACH, ("Job", "TaskClass", "Sequence[int]"), (Mapping,))
"""cards(job, class, rows): row -> resource -> the card with which it is charged to the queue; part of the binding
record. Rows without a charge are left out."""
PREPARATIONS = ExtensionPoint("Preparations", "", Combine.EACH, ("Task", "int"), (Iterable,))
"""preparations(task, row): the Preparations of other objects for which the binding waits."""
QUEUE_USAGE = ExtensionPoint("QueueUsage", "", Combine.EACH, ("Queue",), (Mapping,))
"""usage(queue): name -> (used, limit) of quotas that are not in the queue's spec, for reports."""
NODE_DEVICES = ExtensionPoint("NodeDevices", "", Combine.EACH, (), (Iterable,))
"""devices(): the Devices of nodes, for reports."""
DEVICE_FAULTS = ExtensionPoint("DeviceFaults", "", Combine.EACH, (), (Iterable,))
"""faults(): the DeviceFaults of devices that Pods use."""
HELD_AMOUNTS = ExtensionPoint("HeldAmounts", "", Combine.EACH, (), (Iterable,))
"""held(): (task, resource -> amount in units of the resource) of tasks that hold other amounts than they request, for
``status.allocated`` of queues."""
DESERVED = ExtensionPoint("Deserved", "", Combine.EACH, (), (Mapping,))
"""deserved(): queue -> the amounts that it deserves, from a plugin that divides the cluster, for reports."""
FIGURES = ExtensionPoint("Figures", "", Combine.EACH, (), (Figures,))
"""figures(): the Figures of queues, jobs and namespaces among which the plugin divides the cluster, for metrics."""
CLOSE = ExtensionPoint("Close", "", Combine.CALL)
"""close(): called after the actions and before statuses are computed; plugins write conditions and metrics."""

POINTS = [value for value in list(globals().values()) if isinstance(value, ExtensionPoint)]
ENABLE_HIERARCHY = "enableHierarchy"
"""Queues form a hierarchy (capacity, drf, nodegroup). This is the only flag that is off by default."""
ENABLE_NAMESPACE_ORDER = "enableNamespaceOrder"
"""Namespaces get fair shares (drf)."""
_UNUSED_FLAGS = frozenset({"enabledClusterOrder", "enableReservedNodes", "enableTargetJob"})
"""Flags of Volcano for functions that none of its actions calls."""
FLAGS = frozenset({p.flag for p in POINTS if p.flag} | _UNUSED_FLAGS | {ENABLE_HIERARCHY, ENABLE_NAMESPACE_ORDER})
