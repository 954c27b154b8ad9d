"""The arguments of the extender plugin."""

from typing import Final
from urllib.parse import urlsplit

from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments

_TIMEOUT: Final = 1.0
_MAX_TIMEOUT: Final = 60.0


class ExtenderSettings:
    """The arguments, with Volcano's names. A verb is the last path segment of the URL; a call without a verb is
    disabled."""

    def __init__(self, arguments: Arguments) -> None:
        def verb(key: str) -> str:
            return arguments.text(f"extender.{key}", "")

        self.session_open = verb("onSessionOpenVerb")
        self.session_close = verb("onSessionCloseVerb")
        self.predicate = verb("predicateVerb")
        self.prioritize = verb("prioritizeVerb")
        self.preemptable = verb("preemptableVerb")
        self.reclaimable = verb("reclaimableVerb")
        self.queue_overused = verb("queueOverusedVerb")
        self.job_enqueueable = verb("jobEnqueueableVerb")
        self.job_enqueued = verb("jobEnqueuedVerb")
        self.job_ready = verb("jobReadyVerb")
        self.allocate = verb("allocateFuncVerb")
        self.deallocate = verb("deallocateFuncVerb")
        self.ignorable = arguments.boolean("extender.ignorable", False)
        """Whether a call without an answer is ignored."""
        self.prefix = _prefix(arguments)
        self.timeout = _timeout(arguments)
        """In seconds."""
        self._resources = _resources(arguments)

    def manages(self, cls: TaskClass) -> bool:
        """Whether the extender is called for tasks of the class: they request one of its resources, or it manages
        all."""
        if not self._resources:
            return True
        containers = (*cls.spec.containers, *(cls.spec.init_containers or ()))
        return any(
            name in self._resources
            for container in containers
            if container.resources is not None
            for name in (*(container.resources.requests or ()), *(container.resources.limits or ()))
        )


def _prefix(arguments: Arguments) -> str:
    text = arguments.text("extender.urlPrefix", "")
    try:
        valid = urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).hostname)
    except ValueError:
        valid = False
    return (
        text.rstrip("/") if valid else arguments.set_aside("extender.urlPrefix", text, "not an http or https URL", "")
    )


def _timeout(arguments: Arguments) -> float:
    key = "extender.httpTimeout"
    seconds = arguments.duration(key, _TIMEOUT)
    if seconds <= 0:
        return arguments.set_aside(key, arguments[key], "not above 0", _TIMEOUT)
    if seconds > _MAX_TIMEOUT:
        return arguments.set_aside(key, arguments[key], "longer than a session may wait", _MAX_TIMEOUT)
    return seconds


def _resources(arguments: Arguments) -> frozenset[str]:
    key = "extender.managedResources"
    listed = arguments.get(key)
    if listed is None:
        return frozenset()
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return frozenset(listed)
    return arguments.set_aside(key, listed, "not a list of names", frozenset())
