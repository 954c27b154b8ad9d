"""Extension points: every kind of function a plugin may register, and how the answers of several combine over tiers.

A few combinators cover them all (Volcano's session_plugins.go writes each of these loops some ten times):

* FIRST    the first plugin with an answer decides
* KEY      the answers are one key, compared part by part
* ALL      every plugin must agree
* TIER     every plugin of the first tier with a function must agree; without any function the answer is no
* VOTE     a negative vote vetoes; a positive one in a tier decides after that tier; all abstaining permits
* MOST     the largest number holds
* LEAST    the smallest number holds; no function is called after a 0
* SUM      numbers add up
* VICTIMS  lists intersect within a tier; the first tier that yields any decides
* UNION    lists unite within a tier; the first tier that yields any decides
* CHAIN    each plugin narrows what those before it have left
* EACH     every answer stands for itself
* CALL     all are called, nothing is answered
"""

from dataclasses import dataclass
from enum import Enum

from scheduler.api.job import Job
from scheduler.api.resource import Vector


class Combine(Enum):
    FIRST = "first"
    KEY = "key"
    ALL = "all"
    TIER = "tier"
    VOTE = "vote"
    MOST = "most"
    LEAST = "least"
    SUM = "sum"
    VICTIMS = "victims"
    UNION = "union"
    CHAIN = "chain"
    EACH = "each"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """For whom tasks are evicted by gangpreempt or gangreclaim."""

    job: Job
    request: Vector
    """The sum of what its tasks ask for."""
    across_queues: bool
    """It takes from other queues (gangreclaim), else from less important jobs of its own (gangpreempt)."""


class Vote(Enum):
    """A plugin's answer where several must come to one."""

    PERMIT = 1
    ABSTAIN = 0
    REJECT = -1


@dataclass(frozen=True, slots=True, eq=False)
class ExtensionPoint:
    """One kind of function. The name of the method of a session that registers one is ``add_`` and the name of the
    constant in lower case, but for ``add_filter`` (PREDICATE) and ``add_score`` (NODE_ORDER). Points are compared by
    identity, so that looking one up is cheap."""

    name: str
    flag: str
    """The configuration key that switches the functions of a plugin off; "": none does."""
    combine: Combine
    takes: tuple[str, ...] = ()
    """The types of what a function is given, in order."""


JOB_ORDER = ExtensionPoint("JobOrder", "enableJobOrder", Combine.KEY, ("Job",))
"""key(job): comparable; the smaller is scheduled first."""
QUEUE_ORDER = ExtensionPoint("QueueOrder", "enableQueueOrder", Combine.KEY, ("Queue",))
"""key(queue): comparable; the smaller is served first."""
VICTIM_QUEUE_ORDER = ExtensionPoint("VictimQueueOrder", "", Combine.KEY, ("Queue", "Queue"))
"""key(queue, preemptor queue): comparable; the smaller loses tasks first."""
TASK_ORDER = ExtensionPoint("TaskOrder", "enableTaskOrder", Combine.KEY, ("Task",))
"""key(task): comparable; the smaller is placed first within its job."""
SUB_JOB_ORDER = ExtensionPoint("SubJobOrder", "enabledSubJobOrder", Combine.KEY, ("SubJob",))
"""key(sub-job): comparable; the smaller sub-group is placed first within its job."""

JOB_VALID = ExtensionPoint("JobValid", "", Combine.FIRST, ("Job",))
"""check(job): a Refusal if the job cannot be scheduled as it is, else None."""
JOB_READY = ExtensionPoint("JobReady", "enableJobReady", Combine.MOST, ("Job",))
"""missing(job): 0 if enough tasks are placed to start, else a lower bound of how many more that takes."""
JOB_PIPELINED = ExtensionPoint("JobPipelined", "enableJobPipelined", Combine.VOTE, ("Job",))
"""vote(job): whether the job would be ready once releasing resources are free."""
JOB_STARVING = ExtensionPoint("JobStarving", "enableJobStarving", Combine.TIER, ("Job",))
"""test(job): whether the job may take resources from others."""
SUB_JOB_READY = ExtensionPoint("SubJobReady", "enabledSubJobReady", Combine.MOST, ("SubJob",))
"""missing(sub-job): as JobReady, of one sub-group."""
SUB_JOB_PIPELINED = ExtensionPoint("SubJobPipelined", "enabledSubJobPipelined", Combine.VOTE, ("SubJob",))
"""vote(sub-job): as JobPipelined, of one sub-group."""
JOB_ENQUEUEABLE = ExtensionPoint("JobEnqueueable", "enableJobEnqueued", Combine.VOTE, ("Job",))
"""vote(job): whether the PodGroup may enter its queue (Pods may then be made for it)."""
JOB_ENQUEUED = ExtensionPoint("JobEnqueued", "enableJobEnqueued", Combine.CALL, ("Job",))
"""note(job): it has been let in."""
UNGATED = ExtensionPoint("Ungated", "", Combine.CALL, ("Job", "Sequence[Task]"))
"""note(job, tasks): the scheduling gate of queue admission is taken off these, of one class."""

OVERUSED = ExtensionPoint("Overused", "enabledOverused", Combine.FIRST, ("Queue",))
"""test(queue): a Refusal if the queue has all it may have and is passed over for this session, else None."""
ALLOCATABLE = ExtensionPoint("Allocatable", "enabledAllocatable", Combine.LEAST, ("Queue", "Job", "TaskClass"))
"""room(queue, job, class): how many more tasks of the class the queue may be given (0: none). Tasks that terminate may
count as gone, since places can be promised; see ALLOCATABLE_NOW."""
ALLOCATABLE_NOW = ExtensionPoint("AllocatableNow", "enabledAllocatable", Combine.LEAST, ("Queue", "Job", "TaskClass"))
"""room(queue, job, class): how many of these may be bound while what terminates still holds its place (0: none; the
others can be pipelined)."""
PREEMPTIVE = ExtensionPoint("Preemptive", "enablePreemptive", Combine.ALL, ("Queue", "Sequence[Task]"))
"""test(queue, tasks): whether the queue may take these from other queues."""

PREDICATE = ExtensionPoint("Predicate", "enablePredicate", Combine.EACH, ("TaskClass",))
"""filters(class): the Filters that decide on which nodes tasks of the class may run. The answer is kept for the class;
a function that needs more says so when it is registered, and is given it (see ``Registration.add_filter``)."""
NODE_ORDER = ExtensionPoint("NodeOrder", "enableNodeOrder", Combine.EACH, ("TaskClass",))
"""scores(class): the Scores that rank the nodes for tasks of the class; kept as the Filters are."""
BEST_NODE = ExtensionPoint("BestNode", "enableBestNode", Combine.FIRST, ("TaskClass", "Rows", "Column"))
"""choose(class, rows, scores): the row to take of the candidates, or None."""
HYPER_NODE_ORDER = ExtensionPoint(
    "HyperNodeOrder", "enabledHyperNodeOrder", Combine.SUM, ("SubJob", "Sequence[HyperNode]")
)
"""scores(sub-job, HyperNodes): how good each is for it; a column."""
HYPER_NODE_GRADIENT = ExtensionPoint(
    "HyperNodeGradient", "enabledHyperNodeGradient", Combine.FIRST, ("Job | SubJob", "HyperNode", "bool")
)
"""gradients(job or sub-job, within, evict): see ``Session.gradients``."""

PREEMPTABLE = ExtensionPoint("Preemptable", "enablePreemptable", Combine.VICTIMS, ("Task", "Sequence[Task]"))
"""victims(preemptor, candidates): those that may be evicted within the queue, or None to abstain. Candidates are tasks
of one node, those to go first in front. A task that is refused alone is refused in any company. See ``add_preemptable``
for what of the preemptor the answer may depend on."""
RECLAIMABLE = ExtensionPoint("Reclaimable", "enableReclaimable", Combine.VICTIMS, ("Task", "Sequence[Task]"))
"""victims(reclaimer, candidates): those that may be evicted from other queues, or None to abstain; as above."""
UNIFIED_EVICTABLE = ExtensionPoint("UnifiedEvictable", "", Combine.CHAIN, ("EvictionContext", "Sequence[Task]"))
"""evictable(context, candidates): those that may be evicted for a gang as the context says. Candidates are of any
number of nodes, those to go first in front; whether one may go depends on those before it only."""
VICTIM_TASKS = ExtensionPoint("VictimTasks", "enabledVictim", Combine.UNION, ("Sequence[Task]",))
"""victims(tasks): those to be evicted by shuffle."""
VICTIM_LIMIT = ExtensionPoint("VictimLimit", "enabledVictim", Combine.CHAIN, ("Sequence[Task]",))
"""allowed(tasks): those of shuffle's victims that may go."""

BIND_ANNOTATIONS = ExtensionPoint("BindAnnotations", "", Combine.EACH, ("Task", "int"))
"""annotations(task, row): what is written onto the Pod in the binding call."""
CARDS = ExtensionPoint("Cards", "", Combine.EACH, ("Job", "TaskClass", "Sequence[int]"))
"""cards(job, class, rows): row -> resource -> the card it counts there, for which the queue is charged; kept in the
binding's record. Rows are left out where the queue is charged for nothing."""
PREPARATIONS = ExtensionPoint("Preparations", "", Combine.EACH, ("Task", "int"))
"""preparations(task, row): the Preparations of other objects that the binding has to wait for."""
QUEUE_USAGE = ExtensionPoint("QueueUsage", "", Combine.EACH, ("Queue",))
"""usage(queue): name -> (used, limit) of what the plugin limits that is not in the queue's spec, for reports."""
HELD_AMOUNTS = ExtensionPoint("HeldAmounts", "", Combine.EACH)
"""held(): (task, resource -> amount in units of the resource) of tasks that hold other amounts than they ask for, for
``status.allocated`` of queues."""
FIGURES = ExtensionPoint("Figures", "", Combine.EACH)
"""figures(): the Figures of the queues, jobs and namespaces that the plugin divides the cluster among, for metrics."""
CLOSE = ExtensionPoint("Close", "", Combine.CALL)
"""close(): the actions are done; write conditions, tell metrics. Runs before statuses are computed."""

POINTS = [value for value in list(globals().values()) if isinstance(value, ExtensionPoint)]
ENABLE_HIERARCHY = "enableHierarchy"
"""Queues stand below each other (capacity, drf, nodegroup). The one flag that is off unless it is switched on."""
ENABLE_NAMESPACE_ORDER = "enableNamespaceOrder"
"""Namespaces have their fair shares (drf)."""
_OF_NOTHING = frozenset({"enabledClusterOrder", "enableReservedNodes", "enableTargetJob"})
"""Volcano's flags of functions that none of its actions asks for."""
FLAGS = frozenset({p.flag for p in POINTS if p.flag} | _OF_NOTHING | {ENABLE_HIERARCHY, ENABLE_NAMESPACE_ORDER})
