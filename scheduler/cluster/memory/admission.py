"""Admission for a cluster in memory: calls the functions of the webhooks on the objects of the simulation."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from scheduler.api.kinds import NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import DEFAULT_QUEUE, GROUP_NAME
from scheduler.api.objects import ENDED_PHASES, Namespace
from scheduler.api.scheduling import Queue
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import ForbiddenError, MemoryServer
from scheduler.controllers.job.plugins import PLUGIN_NAMES
from scheduler.webhooks.contract import AdmissionRequest, Operation, WebhookSettings
from scheduler.webhooks.routes import Decision, admit, routes

_MUTATING: Final = ("/jobs/mutate", "/queues/mutate", "/podgroups/mutate")
_QUEUE_GATES: Final = ("/pods/mutate",)
"""A simulation has no resource groups, so this webhook only adds the gate."""
_VALIDATING: Final = (
    "/jobs/validate",
    "/hypernodes/validate",
    "/cronjobs/validate",
    "/jobflows/validate",
    "/jobtemplates/validate",
)
"""Without Queues, PodGroups and Pods. They may be copied from a cluster in a state that admission refuses, such as a
PodGroup in a closed queue or a queue without its parent, and the simulation shows what happens then."""
_SUBMITTED: Final = (*_VALIDATING, "/podgroups/validate", "/queues/validate", "/ascendjobs/validate")
"""What validates objects that a client submits, with the default settings of the chart."""


class MemoryAdmission:
    """Admits every new object: those that controllers create, and loaded ones without a uid. A loaded object with a uid
    was admitted by its cluster."""

    def __init__(self, server: MemoryServer, scheduler_names: Sequence[str], *, queue_gates: bool) -> None:
        self._view = MemoryView(server)
        self._settings = WebhookSettings(
            scheduler_names=tuple(scheduler_names), job_plugins=PLUGIN_NAMES, queue_gates=queue_gates
        )
        self._mutating = (*_MUTATING, *_QUEUE_GATES) if queue_gates else _MUTATING
        self._mutated, self._validated = _kinds(self._mutating), _kinds(_VALIDATING)

    def with_defaults(self, kind: Kind, raw: Json) -> Json:
        """Returns the object after mutation; the same object if no mutating webhook has its kind."""
        if kind not in self._mutated:
            return raw
        return admit(_creation(kind, raw), self._view, self._settings, self._mutating).object

    def admit(self, kind: Kind, raw: Json) -> Json:
        """Returns an object that a controller creates, after mutation. Raises ForbiddenError if it is refused."""
        raw = self.with_defaults(kind, raw)
        decision = self._decide(kind, raw)
        if decision is not None and decision.refusal:
            raise ForbiddenError(_denied(decision))
        return raw

    def admitted(self, kind: Kind, raw: Json, old: Json | None = None) -> Json:
        """Returns an object that a client submits, after mutation; ``old``: the object that it changes. Raises
        ForbiddenError if it is refused."""
        request = _creation(kind, raw)
        if old is not None:
            request = replace(request, operation=Operation.UPDATE, old=old)
        decision = admit(request, self._view, self._settings, (*self._mutating, *_SUBMITTED))
        if decision.refusal:
            raise ForbiddenError(_denied(decision))
        return decision.object

    def refusal(self, kind: Kind, raw: Json) -> str:
        """The refusal of the validating webhooks, or "". Call it when all objects are loaded."""
        decision = self._decide(kind, raw)
        return "" if decision is None else decision.refusal

    def _decide(self, kind: Kind, raw: Json) -> Decision | None:
        """The decision of the validating webhooks; None if there are none of the kind."""
        if kind not in self._validated:
            return None
        return admit(_creation(kind, raw), self._view, self._settings, _VALIDATING)


def _denied(decision: Decision) -> str:
    """The refusal in the words of the API server."""
    return f'admission webhook "{decision.webhook}" denied the request: {decision.refusal}'


def _kinds(paths: Collection[str]) -> frozenset[Kind]:
    return frozenset(routes()[path].kind for path in paths)


def _creation(kind: Kind, raw: Json) -> AdmissionRequest:
    metadata = raw["metadata"]
    return AdmissionRequest(Operation.CREATE, kind, metadata.get("namespace") or "", metadata["name"], raw)


class MemoryView:
    """The ClusterView of a cluster in memory."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def queue(self, name: str) -> Queue | None:
        return self._server.decoded(QUEUE, "", name)

    def queues(self) -> Iterable[Queue]:
        return self._server.structs(QUEUE)

    def namespace(self, name: str) -> Namespace | None:
        return self._server.decoded(NAMESPACE, "", name)

    def bound_pods(self, queue: str) -> int:
        groups = {
            (group.metadata.namespace, group.metadata.name)
            for group in self._server.structs(POD_GROUP)
            if (group.spec.queue or DEFAULT_QUEUE) == queue
        }
        return sum(
            1
            for pod in self._server.structs(POD)
            if pod.spec.node_name
            and pod.status.phase not in ENDED_PHASES
            and (pod.metadata.namespace, (pod.metadata.annotations or {}).get(GROUP_NAME, "")) in groups
        )
