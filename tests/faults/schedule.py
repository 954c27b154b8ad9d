"""The schedule of a history: the work that arrives, the faults of requests, and the faults of processes and nodes.

A schedule is plain data and depends on its seed alone, so a history can be run again. Which request meets a fault
depends on how fast the programs are; the windows, the shares and the order of the decisions do not.
"""

from enum import StrEnum
from random import Random
from typing import Final

import msgspec

DURATION: Final = 2.5
"""Seconds from the first work to the end of all faults, beside those that take longer by themselves."""
FROZEN: Final = 4.5
"""Seconds for which a process is stopped: longer than the lease (`replicas.LEASE`), so that a standby takes it."""
NPU_NODES: Final = 3
GPU_NODES: Final = 1
CHIPS: Final = 8
"""Chips of an NPU node."""
QUOTA: Final = 16
"""Chips that the queue of a history may use, of 24."""


class Role(StrEnum):
    """The programs whose requests meet faults."""

    SCHEDULER = "scheduler"
    CONTROLLERS = "controllers"


class Target(StrEnum):
    """Kinds of requests."""

    BINDING = "binding"
    NEW_POD = "new Pod"
    LEASE = "lease"
    EVENT = "Event"
    WRITE = "other write"
    LIST = "list"
    WATCH = "watch"
    READ = "read"


class FaultKind(StrEnum):
    """What happens to a request."""

    REFUSED = "refused"
    """Answered with an error; the API server does not receive it."""
    ANSWER_LOST = "answer lost"
    """Carried out; the connection is reset instead of an answer."""
    ANSWER_REPLACED = "answer replaced"
    """Carried out; answered with an error."""
    TORN = "torn"
    """Carried out; the connection is reset in the middle of the answer."""
    DELAYED = "delayed"
    """Carried out later, unless the client has given up."""
    UNANSWERED = "unanswered"
    """Neither carried out nor answered until the faults end; the connection is reset then."""
    SILENT = "silent"
    """A watch that delivers its first data and then nothing until the faults end; the connection is reset then."""
    SLOW = "slow"
    """Answered a few bytes at a time."""
    EXPIRED = "expired"
    """A watch that reports that its resource version is too old."""


class Fault(msgspec.Struct, frozen=True):
    """What happens to a request, with its numbers."""

    kind: FaultKind
    status: int = 0
    """The status code of a made answer."""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.status}" if self.status else str(self.kind)


class Window(msgspec.Struct, frozen=True):
    """A time in which a share of the requests of one kind meets a fault. Times in seconds from the first work."""

    begin: float
    end: float
    role: Role
    target: Target
    fault: Fault
    share: float


class StepKind(StrEnum):
    """What happens to a process, a node, or the rights of a role."""

    KILL = "kill the leader"
    KILL_IN_COMMIT = "kill the leader in mid-commit"
    FREEZE = "freeze the leader"
    FREEZE_IN_COMMIT = "freeze the leader in mid-commit"
    RESTART_API_SERVER = "restart the API server"
    RESTART_ETCD = "kill and restart etcd"
    WITHDRAW_RIGHTS = "withdraw the rights of a role"
    DELETE_NODE = "delete a node"
    SILENCE_WATCHES = "silence all watches of a role"


class Step(msgspec.Struct, frozen=True):
    """Something that happens once."""

    at: float
    """Seconds from the first work."""
    kind: StepKind
    role: Role = Role.SCHEDULER
    seconds: float = 0.0
    """How long it lasts."""
    number: int = 0
    """Of a node: its number. In mid-commit: the number of bindings or new Pods before it."""


class Work(msgspec.Struct, frozen=True):
    """A vcjob, or a single Pod."""

    at: float
    name: str
    pods: int
    """0: a single Pod without a job."""
    chips: int = 0
    """Chips of each Pod."""
    vgpus: int = 0
    """Parts of GPUs of each Pod."""
    fails: bool = False
    """Whether the Pods fail, and the job with them after its retries."""
    runs_for: float = 0.0
    """Seconds."""


class Schedule(msgspec.Struct, frozen=True):
    """One history."""

    seed: int
    work: tuple[Work, ...]
    windows: tuple[Window, ...]
    steps: tuple[Step, ...]

    @property
    def end(self) -> float:
        """Seconds from the first work to the end of the last fault."""
        ends = [window.end for window in self.windows] + [step.at + step.seconds for step in self.steps]
        return max([DURATION, *ends])


_WRITES: Final = (Target.BINDING, Target.BINDING, Target.NEW_POD, Target.WRITE, Target.LEASE)
_READS: Final = (Target.WATCH, Target.WATCH, Target.LIST, Target.READ)
_STATUSES: Final = {
    **dict.fromkeys(_WRITES, (409, 429, 500, 503)),
    **dict.fromkeys(_READS, (410, 429, 500, 503)),
    Target.LEASE: (409, 500, 503),
}
_KINDS: Final = {
    **dict.fromkeys(
        _WRITES,
        (
            FaultKind.REFUSED,
            FaultKind.REFUSED,
            FaultKind.ANSWER_LOST,
            FaultKind.ANSWER_REPLACED,
            FaultKind.TORN,
            FaultKind.DELAYED,
            FaultKind.UNANSWERED,
            FaultKind.SLOW,
        ),
    ),
    Target.WATCH: (FaultKind.REFUSED, FaultKind.TORN, FaultKind.SILENT, FaultKind.SLOW, FaultKind.EXPIRED),
    Target.LIST: (FaultKind.REFUSED, FaultKind.TORN, FaultKind.UNANSWERED, FaultKind.SLOW),
    Target.READ: (FaultKind.REFUSED, FaultKind.TORN, FaultKind.UNANSWERED),
}


def schedule_of(seed: int, *, processes: bool = True, first: StepKind | None = None) -> Schedule:
    """The schedule of a seed. ``processes``: whether processes, nodes and rights have faults too. ``first``: the kind
    of the first step; by default, each kind is the first of every ninth seed."""
    random = Random(seed)
    windows = tuple(_window(random) for _ in range(random.randint(2, 4)))
    steps: list[Step] = []
    kinds = list(StepKind)
    if processes:
        steps.append(_step(random, first or kinds[seed % len(kinds)]))
        if random.random() < 0.3:
            steps.append(_step(random, random.choice(kinds)))
    return Schedule(seed, _work(random), windows, tuple(sorted(steps, key=lambda step: step.at)))


def _window(random: Random) -> Window:
    target = random.choice(_WRITES + _READS)
    begin = random.uniform(0.0, DURATION / 2)
    length = random.uniform(0.3, DURATION / 2)
    role = random.choice(list(Role))
    if target in (Target.BINDING, Target.NEW_POD):
        role = Role.SCHEDULER if target is Target.BINDING else Role.CONTROLLERS
    kind = random.choice(_KINDS[target])
    status = 0
    if kind is FaultKind.REFUSED:
        status = random.choice(_STATUSES[target])
    elif kind is FaultKind.ANSWER_REPLACED:
        status = random.choice((500, 504))
    fault = Fault(kind, status, random.uniform(0.05, 0.6) if kind is FaultKind.DELAYED else 0.0)
    return Window(begin, begin + length, role, target, fault, random.choice((0.2, 0.5, 1.0)))


def _step(random: Random, kind: StepKind) -> Step:
    at, role = random.uniform(0.2, DURATION * 0.6), random.choice(list(Role))
    match kind:
        case StepKind.KILL_IN_COMMIT:
            return Step(0.0, kind, role, number=random.randint(1, 4))
        case StepKind.FREEZE_IN_COMMIT:
            return Step(0.0, kind, role, FROZEN, number=random.randint(1, 4))
        case StepKind.FREEZE:
            return Step(at, kind, role, FROZEN)
        case StepKind.DELETE_NODE:
            return Step(at, kind, seconds=random.uniform(0.3, 1.5), number=random.randrange(NPU_NODES))
        case StepKind.WITHDRAW_RIGHTS | StepKind.SILENCE_WATCHES:
            return Step(at, kind, role, random.uniform(0.5, 2.0))
        case _:
            return Step(at, kind, role)


def _work(random: Random) -> tuple[Work, ...]:
    """Vcjobs that request about twice the quota, and single Pods. Jobs of several Pods use whole NPU nodes: fewer chips
    have to be requested by one Pod."""
    work = []
    for i in range(random.randint(5, 7)):
        pods, chips = random.choice(((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (2, 8)))
        at, runs_for = random.uniform(0.0, DURATION / 2), random.choice((0.0, 0.3, 1.0))
        work.append(Work(at, f"npu-{i}", pods, chips=chips, runs_for=runs_for))
    for i in range(random.randint(1, 2)):
        at = random.uniform(0.0, DURATION / 2)
        work.append(Work(at, f"gpu-{i}", random.randint(1, 3), vgpus=1, runs_for=random.choice((0.0, 0.5))))
    work.append(Work(random.uniform(0.0, DURATION / 2), "cpu", random.randint(2, 6)))
    work.append(Work(random.uniform(0.0, 0.5), "fails", 1, chips=1, fails=True))
    work += [Work(random.uniform(0.0, DURATION / 2), f"single-{i}", 0, chips=i) for i in range(2)]
    return tuple(sorted(work, key=lambda each: each.at))
