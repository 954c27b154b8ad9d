"""What a plugin may touch of a session: it reads the snapshot and registers functions. It neither decides nor binds."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from scheduler.api.decisions import Evict, ObjectWrite
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task
from scheduler.framework.extension import CLOSE
from scheduler.framework.external_calls import ExternalCalls
from scheduler.framework.registration import Registration
from scheduler.framework.signatures import check

if TYPE_CHECKING:
    from scheduler.framework.session import Session

T = TypeVar("T")


class Plugin(Protocol):
    """A plugin. It is created for each session, so it may keep its state in ``self``. ``PluginSession.memo`` keeps what
    later sessions need; modules and classes have no state.

    ``__init__`` receives the ``Arguments``; without one, the plugin takes none. Arguments that are read neither there
    nor in ``open`` are reported as unknown.

    Optional class methods: ``cache_requirements(arguments, config_maps)`` and ``card_parts(arguments, config_maps)``
    (see the modules of these names), and ``refusal(arguments)``, which returns why a configuration with these arguments
    is invalid, or "". Optional class attributes: ``beside``, plugin -> what to say if both are configured, and
    ``configurations``, the names of entries of ``configurations`` that the plugin reads besides those of actions.
    """

    name: ClassVar[str]

    def open(self, session: "PluginSession") -> None:
        """Registers functions with the session. Called once, tier by tier, in the order of the configuration."""


class PluginSession(Registration):
    """The session that a plugin receives in ``open``. Its attributes, and its methods that register nothing, are those
    of the ``Session``, which only actions receive."""

    def __init__(self, session: "Session") -> None:
        super().__init__(session, session.queues)
        self._session = session
        self.placing: SubJob | None = None
        """The sub-job whose tasks are being placed. Scores depend on where its other tasks are. None while filters and
        scores are created, since these are kept for all jobs."""
        # The objects and methods themselves: to read them through a property would take time for every Pod.
        self.active_jobs = session.active_jobs
        self.configuration = session.configuration
        self.dimensions = session.dimensions
        self.hyper_nodes = session.hyper_nodes
        self.jobs = session.jobs
        self.nodes = session.nodes
        self.plugins = session.plugins
        self.problems = session.problems
        self.queues = session.queues
        self.settled_jobs = session.settled_jobs
        self.shared = session.shared
        self.snapshot = session.snapshot
        self.touched = session.touched
        self.arguments = session.arguments
        self.event = session.event
        self.field_reporter = session.field_reporter
        self.filters = session.filters
        self.job_missing = session.job_missing
        self.malformed_field = session.malformed_field
        self.malformed_pod = session.malformed_pod
        self.memo = session.memo
        self.queues_with_jobs = session.queues_with_jobs
        self.refuse = session.refuse
        self.row_of = session.row_of
        self.status_of = session.status_of
        self.touch = session.touch
        self.view_key = session.view_key

    @property
    def now(self) -> float:
        """Unix time of the session, in seconds. A session reads no other clock."""
        self._session.read_time = True
        return self.snapshot.now

    @property
    def external_calls(self) -> ExternalCalls:
        """Carries out requests to other programs, whose answers may depend on time, too."""
        return self._session.external_calls

    @cached_property
    def total(self) -> Vector:
        """The sum of allocatable amounts over all nodes."""
        return self._session.total

    @cached_property
    def task_key(self) -> Callable[[Task], tuple[Any, ...]]:
        """Returns the key of a task; the task with the smaller key is placed first within its job."""
        return self._session.task_key

    def once(self, make: Callable[["PluginSession"], T]) -> T:
        """Returns the result of ``make``, which is called once and shared by all plugins of the session."""
        if make not in self.shared:
            self.shared[make] = make(self)
        made: T = self.shared[make]
        return made

    def write(self, *writes: ObjectWrite) -> None:
        """Writes objects in which plugins keep state, or which they share with other components, with the decisions of
        the session."""
        self._session.decisions.writes += writes

    def add_deletions(self, deletions: Callable[[], Iterable[Evict]]) -> None:
        """Registers a function that returns the tasks to delete for another reason than room for others, such as
        defective hardware. It is called with the functions of ``add_close``, in their order. A task that an action has
        evicted is left out."""
        check(self._option.name, CLOSE.name, deletions, ())
        delete = self._session.delete
        self._functions.insert(CLOSE, self._tier, lambda: delete(deletions()), self._option.name, source=deletions)
