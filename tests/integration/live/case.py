"""A case of a live cluster: its objects, the steps that create its situation, and the change that follows.

A case has a namespace, nodes and a queue of its own, named after it, so that many run beside each other on one control
plane. Steps and changes are documents as ``simulate --what-if`` reads them.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    COMMAND,
    CRON_JOB,
    DEPLOYMENT,
    JOB_FLOW,
    JOB_TEMPLATE,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.names import DEFAULT_SCHEDULER_NAME, GROUP_NAME, WHAT_IF

Raw = dict[str, Any]
POOL = "pool"
"""The label of a node with the name of its case."""
HELD: Mapping[str, str] = {"volcano-py.test/terminates-for": "1h"}
"""The annotations of a Pod that stays terminating when it is deleted."""
FINALIZER = "volcano-py.test/kept"


@dataclass
class Case:
    """Builds objects of one case."""

    name: str
    random: Random
    steps: list[list[Raw]] = field(default_factory=lambda: [[]])
    """The objects of each step. A step begins when the cluster has settled after the preceding step."""
    changes: list[Raw] = field(default_factory=list)
    """The change that is made to the prepared situation."""
    waiting: tuple[str, str] = ("", "")
    """The kind and name of the waiting object, for ``explain``."""
    advised: bool = False
    """Whether the change is the first one that ``explain`` suggests."""
    lasts: int = 0
    """The least number of seconds until the cluster is compared with the dump, and again after the change. Times of
    schedules and ends of time-outs lie within these seconds."""

    def __post_init__(self) -> None:
        self.add(self.queue())

    def add(self, *objects: Raw) -> None:
        """Adds objects to the current step."""
        self.steps[-1] += objects

    def then(self, *documents: Raw) -> None:
        """Begins a new step."""
        self.steps.append(list(documents))

    # --- objects ------------------------------------------------------------------------------------------------------
    def queue(self, cpu: str = "", **spec: Any) -> Raw:
        capability = {"capability": {"cpu": cpu}} if cpu else {}
        return self._object(QUEUE, self.name, spec={"weight": 1, "reclaimable": True, **capability, **spec})

    def further_queue(self, name: str, cpu: str = "", **spec: Any) -> Raw:
        made = self.queue(cpu, **spec)
        made["metadata"] |= {"name": f"{self.name}-{name}", "labels": {POOL: self.name}}
        return made

    def node(self, name: str, cpu: int, labels: Mapping[str, str] | None = None, **rest: Any) -> Raw:
        amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110", **rest.pop("amounts", {})}
        full = f"{self.name}-{name}"
        own = {POOL: self.name, "kubernetes.io/hostname": full, **(labels or {})}
        status = {"allocatable": amounts, "capacity": amounts}
        made = self._object(NODE, full, spec=rest.pop("spec", {}), status=status)
        made["metadata"] |= {"labels": own, **rest}
        return made

    def pod_template(self, cpu: int, annotations: Mapping[str, str] | None = None, **rest: Any) -> Raw:
        requests = {"cpu": str(cpu), **rest.pop("requests", {})}
        container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}
        labels = {"app": self.name, **rest.pop("labels", {})}
        selector = {POOL: self.name, **rest.pop("selector", {})}
        return {
            "metadata": {"labels": labels, **({"annotations": dict(annotations)} if annotations else {})},
            "spec": {
                "schedulerName": DEFAULT_SCHEDULER_NAME,
                "nodeSelector": selector,
                "containers": [container],
                **rest,
            },
        }

    def task(self, name: str, replicas: int, cpu: int, minimum: int | None = None, **rest: Any) -> Raw:
        """A role of a vcjob. ``annotations``: the annotations of its Pods; ``spec``: further fields of their
        spec."""
        template = self.pod_template(cpu, rest.pop("annotations", None), restartPolicy="Never", **rest.pop("spec", {}))
        return {
            "name": name,
            "replicas": replicas,
            "minAvailable": replicas if minimum is None else minimum,
            "maxRetry": 3,
            "template": template,
            **rest,
        }

    def vcjob(self, name: str, *tasks: Raw, minimum: int | None = None, **spec: Any) -> Raw:
        least = sum(task["minAvailable"] for task in tasks)
        body = {
            "schedulerName": DEFAULT_SCHEDULER_NAME,
            "queue": self.name,
            "maxRetry": 3,
            "minAvailable": least if minimum is None else minimum,
            "tasks": list(tasks),
            **spec,
        }
        return self._object(VCJOB, name, spec=body)

    def job_template(self, name: str, job: Raw) -> Raw:
        return self._object(JOB_TEMPLATE, name, spec=job["spec"])

    def job_flow(self, name: str, *flows: Raw) -> Raw:
        return self._object(JOB_FLOW, name, spec={"jobRetainPolicy": "retain", "flows": list(flows)})

    def cron_job(self, name: str, job: Raw, **spec: Any) -> Raw:
        return self._object(CRON_JOB, name, spec={"jobTemplate": {"spec": copy.deepcopy(job["spec"])}, **spec})

    def acjob(self, name: str, workers: int, template: Raw, minimum: int | None = None, **policy: Any) -> Raw:
        template["spec"]["containers"][0]["name"] = "ascend"
        scheduling = {"minAvailable": workers if minimum is None else minimum, "queue": self.name}
        made = self._object(
            ACJOB,
            name,
            spec={
                "schedulerName": DEFAULT_SCHEDULER_NAME,
                "runPolicy": {"schedulingPolicy": scheduling, **policy},
                "successPolicy": "AllWorkers",
                "replicaSpecs": {
                    "Master": {"replicas": 1, "restartPolicy": "Never", "template": template},
                    **(
                        {"Worker": {"replicas": workers - 1, "restartPolicy": "Never", "template": template}}
                        if workers > 1
                        else {}
                    ),
                },
            },
        )
        made["metadata"]["labels"] = {"framework": "pytorch"}
        return made

    def workload(self, kind: Kind, name: str, replicas: int, template: Raw, **spec: Any) -> Raw:
        """A Deployment, StatefulSet or Job of Kubernetes."""
        template = {**template, "metadata": {**template["metadata"], "annotations": self.queue_annotation()}}
        if kind is BATCH_JOB:
            template["spec"] = {**template["spec"], "restartPolicy": "Never"}
            return self._object(kind, name, spec={"parallelism": replicas, "template": template, **spec})
        selector = {"matchLabels": {"app": self.name}}
        body = {"replicas": replicas, "selector": selector, "template": template, **spec}
        if kind is STATEFUL_SET:
            body |= {"serviceName": name}
        made = self._object(kind, name, spec=body)
        made["metadata"]["annotations"] = self.queue_annotation()
        return made

    def queue_annotation(self) -> dict[str, str]:
        return {"scheduling.volcano.sh/queue-name": self.name}

    def deployment(self, name: str, replicas: int, cpu: int, **rest: Any) -> Raw:
        return self.workload(DEPLOYMENT, name, replicas, self.pod_template(cpu, **rest))

    def group(self, name: str, minimum: int, **spec: Any) -> Raw:
        return self._object(POD_GROUP, name, spec={"minMember": minimum, "queue": self.name, **spec})

    def pod(self, name: str, cpu: int, group: str = "", **rest: Any) -> Raw:
        """``metadata``: further fields of its metadata."""
        extra = rest.pop("metadata", {})
        annotations = {**({GROUP_NAME: group} if group else self.queue_annotation()), **rest.pop("annotations", {})}
        template = self.pod_template(cpu, annotations, **rest)
        made = self._object(POD, name, spec=template["spec"])
        made["metadata"] |= {**template["metadata"], **extra}
        return made

    # --- changes ------------------------------------------------------------------------------------------------------
    def merge(self, kind: Kind, name: str, metadata: Raw | None = None, **body: Any) -> Raw:
        return self._intended(kind, name, "merge", metadata or {}, body)

    def delete(self, kind: Kind, name: str) -> Raw:
        return self._intended(kind, name, "delete", {}, {})

    def command(self, action: str, job: str) -> Raw:
        """An action on a vcjob."""
        target = {"apiVersion": VCJOB.api_version, "kind": VCJOB.name, "name": job, "uid": ""}
        return self._object(COMMAND, f"{action.lower()}-{job}", action=action, target=target)

    def queue_command(self, action: str) -> Raw:
        """An action on the queue of the case."""
        target = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "name": self.name, "uid": ""}
        return self._object(COMMAND, f"{action.lower()}-{self.name}", action=action, target=target)

    def _intended(self, kind: Kind, name: str, intent: str, metadata: Raw, body: Raw) -> Raw:
        made = self._object(kind, name, **body)
        made["metadata"] |= {**metadata, "annotations": {**metadata.get("annotations", {}), WHAT_IF: intent}}
        return made

    def _object(self, kind: Kind, name: str, **body: Any) -> Raw:
        meta = {"name": name, **({"namespace": self.name} if kind.namespaced else {})}
        return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **body}
