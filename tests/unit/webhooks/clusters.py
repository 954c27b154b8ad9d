"""A ClusterView and builders of objects for admission tests."""

from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.api.kinds import QUEUE, Kind
from scheduler.api.objects import Namespace
from scheduler.api.scheduling import Queue
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation, WebhookSettings
from scheduler.webhooks.routes import Decision, admit, routes

VOLCANO = WebhookSettings(scheduler_names=("volcano",))
ALL = frozenset(routes())


class Cluster:
    """A ClusterView. ``pods``: the number of allocated Pods by queue."""

    def __init__(self, *queues: Json, namespaces: Iterable[Json] = (), pods: dict[str, int] | None = None) -> None:
        self._queues = {each["metadata"]["name"]: msgspec.convert(each, Queue) for each in queues}
        self._namespaces = {each["metadata"]["name"]: msgspec.convert(each, Namespace) for each in namespaces}
        self._pods = pods or {}

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def bound_pods(self, queue: str) -> int:
        return self._pods.get(queue, 0)


def queue(name: str, annotations: dict[str, str] | None = None, state: str = "Open", **spec: Any) -> Json:
    metadata: Json = {"name": name} if annotations is None else {"name": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {"weight": 1, **spec}, "status": {"state": state}}


def created(
    kind: Kind,
    obj: Json,
    cluster: Cluster | None = None,
    settings: WebhookSettings = VOLCANO,
    namespace: str = "default",
) -> Decision:
    """The admission of a create request, with all webhooks enabled."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    request = AdmissionRequest(
        Operation.CREATE, kind, namespace if kind.namespaced else "", name if isinstance(name, str) else "", obj
    )
    return admit(request, cluster or Cluster(), settings, ALL)


def changed(
    kind: Kind, old: Json, new: Json, cluster: Cluster | None = None, settings: WebhookSettings = VOLCANO
) -> str:
    """The refusal of an update, or ""."""
    request = AdmissionRequest(Operation.UPDATE, kind, "", old["metadata"]["name"], new, old)
    return admit(request, cluster or Cluster(), settings, ALL).refusal


def deleted(name: str, cluster: Cluster, settings: WebhookSettings = VOLCANO) -> str:
    """The refusal of a queue's deletion, or ""."""
    return admit(AdmissionRequest(Operation.DELETE, QUEUE, "", name, {}), cluster, settings, ALL).refusal
