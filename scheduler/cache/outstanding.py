"""What is under way for tasks and not seen by the watch yet: bindings, and evictions."""

from scheduler.api.decisions import Bind
from scheduler.api.objects import Pod
from scheduler.api.task import Task, TaskStatus
from scheduler.cache.pod_tasks import Place, place_of


class Outstanding:
    """By uid of the task. That a binding is under way shows in the status of its task as well."""

    def __init__(self) -> None:
        self._evicting: dict[str, TaskStatus] = {}
        """How far the Pod had come by what the watch last said."""
        self._preparing: dict[str, Bind] = {}
        """Bindings that wait for other objects."""

    def evict(self, task: Task) -> None:
        self._evicting[task.uid] = task.status

    def spare(self, uid: str) -> TaskStatus | None:
        """The eviction did not come about: how far the Pod has come; None: there was none under way."""
        return self._evicting.pop(uid, None)

    def evicting(self, uid: str) -> bool:
        return uid in self._evicting

    def prepare(self, bind: Bind) -> None:
        """A binding waits for other objects."""
        self._preparing[bind.task.uid] = bind

    def preparing(self) -> tuple[Bind, ...]:
        """The bindings that wait for other objects."""
        return tuple(self._preparing.values())

    def swap(self, old: Task | None, new: Task | None) -> None:
        """A task was replaced by another version of it, or is gone."""
        if old is None:
            return
        if old.uid in self._preparing and (new is None or new.status is not TaskStatus.BINDING):
            del self._preparing[old.uid]
        if new is None:
            self._evicting.pop(old.uid, None)

    def place(self, pod: Pod, old: Task | None) -> Place:
        """How far a Pod has come: what is under way counts as done until the watch has seen it, or otherwise.

        ``old`` is the task of the Pod so far.
        """
        said = place_of(pod)
        if old is not None and old.status is TaskStatus.BINDING and said.status is TaskStatus.PENDING:
            return Place(old.status, old.node, old.annotations)
        if old is not None and old.uid in self._evicting:
            if said.status in (TaskStatus.BOUND, TaskStatus.RUNNING):
                self._evicting[old.uid] = said.status
                return said._replace(status=TaskStatus.RELEASING)
            del self._evicting[old.uid]
        return said
