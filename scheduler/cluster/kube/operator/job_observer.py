"""Volcano's metrics of vcjobs and JobFlows, derived from the changes that the controllers receive."""

from collections import Counter
from typing import cast

from scheduler.api import batch
from scheduler.api.batch import JobFlow, JobPhase
from scheduler.api.kinds import JOB_FLOW, POD, VCJOB, Kind
from scheduler.api.objects import KubeObject, Pod
from scheduler.api.times import parse_timestamp
from scheduler.controllers.job.events import job_of
from scheduler.controllers.jobflow.status import FAILED, SUCCEED
from scheduler.controllers.store import Store, key_of
from scheduler.observability.controller_metrics import ControllerMetrics


class JobObserver:
    """Feeds the metrics while this process leads. The series of an object end with the object, so there are never more
    series than objects."""

    def __init__(self, store: Store, metrics: ControllerMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._flows: dict[str, Counter[str]] = {}
        """Namespace -> the JobFlows that were counted, and how often."""

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        """Takes a change. ``old``: None if the object was not known; ``new``: None if it is gone."""
        if kind is POD:
            if old is None and new is not None:
                self._observe_creation(cast("Pod", new))
        elif kind is VCJOB:
            self._observe_job(cast("batch.Job | None", old), cast("batch.Job | None", new))
        elif kind is JOB_FLOW:
            self._observe_flow(cast("JobFlow | None", old), cast("JobFlow | None", new))

    def _observe_creation(self, pod: Pod) -> None:
        """The first time that a Pod is seen; this process created it, if a vcjob owns it."""
        owner = job_of(pod)
        if owner is None:
            return
        job = self._store.get(VCJOB, batch.Job, pod.metadata.namespace, owner.name)
        if job is None or job.metadata.uid != owner.uid:
            return
        began = parse_timestamp(job.metadata.creation_timestamp)
        created = parse_timestamp(pod.metadata.creation_timestamp)
        if began is not None and created is not None:
            self._metrics.pod_creation.observe(max(0.0, created - began) * 1000)

    def _observe_job(self, old: batch.Job | None, new: batch.Job | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._metrics.job_phases.forget("/".join(key_of(old)))
        elif old is not None and new is not None and old.status.state.phase != new.status.state.phase:
            phase = new.status.state.phase
            if phase in (JobPhase.COMPLETED, JobPhase.FAILED):
                self._metrics.job_phases.count(phase, "/".join(key_of(new)), new.spec.queue)

    def _observe_flow(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if old is None:
            return
        namespace, name = key_of(old)
        if new is None:
            counted = self._flows.get(namespace)
            if counted is not None and counted.pop(name, 0) and not counted:
                del self._flows[namespace]
                self._metrics.flow_phases.forget(namespace)
            return
        phase = _flow_phase(new)
        if phase != _flow_phase(old) and phase in (SUCCEED, FAILED):
            self._flows.setdefault(namespace, Counter())[name] += 1
            self._metrics.flow_phases.count(phase, namespace)


def _flow_phase(flow: JobFlow) -> str:
    state = flow.status.get("state")
    return str(state.get("phase", "")) if isinstance(state, dict) else ""
