"""Events about an object, as effects."""

from scheduler.api.decisions import EventPost, ObjectRef
from scheduler.api.kinds import Kind
from scheduler.api.names import EVENT_MALFORMED, EVENT_NORMAL, EVENT_WARNING
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.controllers.effects import Post


def event(kind: Kind, obj: KubeObject, type: str, reason: str, message: str) -> EventPost:
    """An Event that is kept for later."""
    meta = obj.metadata
    return EventPost(ObjectRef(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid), type, reason, message)


def normal(kind: Kind, obj: KubeObject, reason: str, message: str) -> Post:
    """A Normal Event."""
    return Post(event(kind, obj, EVENT_NORMAL, reason, message))


def warning(kind: Kind, obj: KubeObject, reason: str, message: str) -> Post:
    """A Warning Event."""
    return Post(event(kind, obj, EVENT_WARNING, reason, message))


def malformed(kind: Kind, obj: KubeObject, field: str, problem: str) -> Post:
    """A Warning Event that says which field was set aside, and why."""
    meta = obj.metadata
    message = Malformed(kind.name, meta.namespace, meta.name, field, problem).message
    return warning(kind, obj, EVENT_MALFORMED, message)
