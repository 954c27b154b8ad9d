"""A cluster in a few lines around the job controller: an API server with resource versions, stand-ins for scheduler and
kubelet, and a process that can be killed between any two writes."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.api import batch
from scheduler.api.kinds import KINDS, POD, POD_GROUP, VCJOB, Kind
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.times import format_timestamp
from scheduler.controllers.effects import BuildAndCreate, Create, Delete, Effect, Patch, RecordEvent
from scheduler.controllers.job.controller import JobController
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.store import Store
from scheduler.controllers.worklist import ReconcileQueue

Raw = dict[str, Any]
START = 1_800_000_000.0
GRACE = 30
"""The seconds that a Pod has to stop."""


class KilledError(Exception):
    """The process is no more."""


def no_plugins(job: batch.Job) -> Mapping[str, JobPlugin]:
    return {}


def task(name: str = "w", replicas: int = 1, **spec: Any) -> Raw:
    """A task of 1 cpu per Pod."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": template} | spec


def job(name: str = "j", tasks: Sequence[Raw] = (), *, minimum: int | None = None, **spec: Any) -> Raw:
    """A vcjob of which all Pods are needed unless ``minimum`` says otherwise."""
    tasks = list(tasks) or [task(replicas=2)]
    labels, annotations = spec.pop("labels", {}), spec.pop("annotations", {})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "maxRetry": 3,
            "tasks": tasks,
            "minAvailable": sum(t["replicas"] for t in tasks) if minimum is None else minimum,
        }
        | spec,
    }


class World:
    """``make_plugins``: a function, as in JobController."""

    def __init__(self, make_plugins: Any = no_plugins) -> None:
        self.now = START
        self.events: list[tuple[str, str, str, str, str]] = []
        """The kind, name, type, reason and message of each Event."""
        self.history: dict[tuple[str, str], list[str | None]] = {}
        """Maps a kind and name to its phases, in order."""
        self.writes: list[Effect] = []
        """The writes of the controller."""
        self.refuse: Any = lambda effect: ""
        """Returns why the API server refuses a write, or ""."""
        self.writes_left: float = float("inf")
        """The number of writes until the process is killed."""
        self.lag = False
        """Whether writes of others reach the controller only with ``deliver``."""
        self._make_plugins = make_plugins
        self._objects: dict[tuple[Kind, str], Raw] = {}
        self._undelivered: list[tuple[Kind, Raw, bool]] = []
        self._version = 0
        self.start()
        self.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}})

    # --- the process --------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Starts a new process, which lists all objects."""
        self._undelivered.clear()
        self.writes_left = float("inf")
        self.store = Store()
        self.controller = JobController(self.store, self._make_plugins)
        self.worklist = ReconcileQueue([self.controller])
        for (kind, _), raw in self._objects.items():
            if kind.struct is not None:
                self.store.upsert(kind, self._decode(kind, raw))
        for kind, obj in list(self.store):
            self.worklist.observe(kind, None, obj, self.now)

    def settle(self, most: int = 500) -> None:
        """Runs the controller until its worklist is empty for now. Raises KilledError."""
        for _ in range(most):
            item = self.worklist.take(self.now)
            if item is None:
                return
            plan = item.controller.plan(item.key, self.now)
            failure = next(((e, why) for stage in plan.stages for e in stage if (why := self._write(e))), None)
            if failure is None:
                self.worklist.finish(item, plan, self.now)
            else:
                self.worklist.fail(item, *failure, self.now)
        raise AssertionError("the controller does not become idle")

    def wait(self, seconds: float) -> None:
        """Advances the time, and runs the controller whenever an item is due."""
        until = self.now + seconds
        self.settle()
        while (due := self.worklist.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self.settle()
        self.now = until
        self.settle()

    def deliver(self) -> None:
        """Delivers all pending watch events."""
        undelivered, self._undelivered = self._undelivered, []
        for kind, raw, gone in undelivered:
            self._deliver(kind, raw, gone)

    def _write(self, effect: Effect) -> str:
        """Returns why the write failed, or ""."""
        if self.writes_left <= 0:
            raise KilledError
        if not isinstance(effect, RecordEvent):
            self.writes_left -= 1
            why: str = self.refuse(effect)
            if why:
                return why
            self.writes.append(effect)
        match effect:
            case Create():
                name = effect.manifest["metadata"]["name"]
                try:
                    self._decode(effect.kind, effect.manifest)
                except msgspec.ValidationError as error:
                    return str(error)
                if (effect.kind, name) not in self._objects:
                    self._create(effect.kind, effect.manifest, own=True)
            case BuildAndCreate():
                if (effect.kind, effect.name) not in self._objects:
                    self._create(effect.kind, effect.build(), own=True)
            case Patch():
                raw = self._objects.get((effect.kind, effect.name))
                if raw is not None and effect.uid in ("", raw["metadata"]["uid"]):
                    self._patch(effect.kind, effect.name, effect.body, own=True)
            case Delete():
                raw = self._objects.get((effect.kind, effect.name))
                if raw is not None and effect.uid in ("", raw["metadata"]["uid"]):
                    self._delete(effect.kind, effect.name, own=True)
            case RecordEvent():
                event = effect.event
                self.events.append((event.about.kind, event.about.name, event.type, event.reason, event.message))
        return ""

    # --- the API server -----------------------------------------------------------------------------------------------
    def create(self, raw: Raw) -> None:
        """Creates an object as a user does; the controller does not run yet."""
        kind = next(k for k in KINDS if (k.api_version, k.name) == (raw["apiVersion"], raw["kind"]))
        assert (kind, raw["metadata"]["name"]) not in self._objects
        self._create(kind, raw)

    def patch(self, kind: Kind, name: str, body: Raw) -> None:
        self._patch(kind, name, body)

    def delete(self, kind: Kind, name: str) -> None:
        self._delete(kind, name)

    def _create(self, kind: Kind, manifest: Raw, own: bool = False) -> None:
        raw = copy.deepcopy(manifest)
        meta = raw["metadata"]
        meta["uid"] = meta.get("uid") or f"uid-{meta['name']}-{self._version}"
        meta["creationTimestamp"] = format_timestamp(self.now)
        if kind is POD:
            raw["status"] = {"phase": "Pending"} | raw.get("status", {})
        self._objects[kind, meta["name"]] = raw
        self._changed(kind, raw, own)

    def _patch(self, kind: Kind, name: str, body: Raw, own: bool = False) -> None:
        old = self._objects[kind, name]
        raw = _merged(old, body)
        if raw != old:
            self._objects[kind, name] = raw
            self._changed(kind, raw, own)

    def _delete(self, kind: Kind, name: str, own: bool = False) -> None:
        """A running Pod is deleted when the kubelet has stopped it."""
        raw = self._objects[kind, name]
        if kind is POD and raw["spec"].get("nodeName") and raw["status"]["phase"] not in ENDED_PHASES:
            if "deletionTimestamp" not in raw["metadata"]:
                until = format_timestamp(self.now + GRACE)
                self._patch(
                    kind,
                    name,
                    {"metadata": {"deletionTimestamp": until, "deletionGracePeriodSeconds": GRACE}},
                    own,
                )
            return
        del self._objects[kind, name]
        self._record(kind, raw, "GONE")
        self._changed(kind, raw, own, gone=True)
        for (owned_kind, owned_name), other in list(self._objects.items()):
            if any(owner["uid"] == raw["metadata"]["uid"] for owner in other["metadata"].get("ownerReferences", ())):
                self._delete(owned_kind, owned_name)

    def _changed(self, kind: Kind, raw: Raw, own: bool, gone: bool = False) -> None:
        """Notifies the controller of a change, at once if the controller wrote it."""
        self._version += 1
        raw["metadata"]["resourceVersion"] = str(self._version)
        if not gone:
            self._record(kind, raw, (raw.get("status") or {}).get("phase") or _phase(raw))
        event = (kind, copy.deepcopy(raw), gone)
        if self.lag:
            self._undelivered.append(event)
        if own or not self.lag:
            self._deliver(*event)

    def _record(self, kind: Kind, raw: Raw, phase: str | None) -> None:
        phases = self.history.setdefault((kind.name, raw["metadata"]["name"]), [])
        if not phases or phases[-1] != phase:
            phases.append(phase)

    def _deliver(self, kind: Kind, raw: Raw, gone: bool) -> None:
        if kind.struct is None:
            return
        obj = self._decode(kind, raw)
        if not gone:
            fresh, old = self.store.upsert(kind, obj)
            if fresh:
                self.worklist.observe(kind, old, obj, self.now)
            return
        meta = obj.metadata
        there = self.store.get(kind, meta.namespace, meta.name)
        if there is not None and there.metadata.uid == meta.uid:
            old = self.store.delete(kind, meta.namespace, meta.name, meta.uid)
            self.worklist.observe(kind, old, None, self.now)

    def _decode(self, kind: Kind, raw: Raw) -> Any:
        return None if kind.struct is None else msgspec.convert(raw, kind.struct)

    # --- the others ---------------------------------------------------------------------------------------------------
    def admit(self) -> None:
        """The scheduler finds room for every PodGroup."""
        for group in self.all(POD_GROUP):
            if (group.get("status") or {}).get("phase", "") in ("", "Pending"):
                self.group_phase(group["metadata"]["name"], "Inqueue")

    def bind(self) -> None:
        """Gives every Pod a node, and lets it run."""
        for pod in self.all(POD):
            if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
                name = pod["metadata"]["name"]
                self.patch(POD, name, {"spec": {"nodeName": "n1"}})
                self.patch(POD, name, {"status": {"phase": "Running"}})
        for group in self.all(POD_GROUP):
            if (group.get("status") or {}).get("phase") == "Inqueue":
                self.group_phase(group["metadata"]["name"], "Running")

    def stop_deleted(self) -> None:
        """The kubelet has stopped the Pods that were deleted."""
        for pod in self.all(POD):
            if pod["metadata"].get("deletionTimestamp"):
                name = pod["metadata"]["name"]
                raw = self._objects.pop((POD, name))
                self._record(POD, raw, "GONE")
                self._changed(POD, raw, own=False, gone=True)

    def turn(self) -> None:
        """Lets every component act once."""
        self.settle()
        self.admit()
        self.settle()
        self.bind()
        self.stop_deleted()
        self.wait(1.5)

    def run(self, turns: int = 6) -> None:
        for _ in range(turns):
            self.turn()

    def end_pod(self, name: str, phase: str, exit_code: int = 0, finished: float | None = None) -> None:
        """``finished``: when the container of the Pod finished; by default now."""
        time = format_timestamp(self.now if finished is None else finished)
        state = {"name": "main", "state": {"terminated": {"exitCode": exit_code, "finishedAt": time}}}
        self.patch(POD, name, {"status": {"phase": phase, "containerStatuses": [state]}})

    def group_phase(self, name: str, phase: str, *conditions: Raw) -> None:
        status: Raw = {"phase": phase}
        if conditions:
            status["conditions"] = list(conditions)
        self.patch(POD_GROUP, name, {"status": status})

    def command(self, action: str, name: str = "j", *, uid: str | None = None, called: str = "cmd") -> None:
        there = self._objects.get((VCJOB, name))
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "controller": True}
        target["uid"] = (there["metadata"]["uid"] if there else "") if uid is None else uid
        self.create(
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": called, "namespace": "default"},
                "action": action,
                "target": target,
            }
        )

    # --- what became of it --------------------------------------------------------------------------------------------
    def all(self, kind: Kind) -> list[Raw]:
        return [raw for (known, _), raw in list(self._objects.items()) if known is kind]

    def names(self, kind: Kind) -> set[str]:
        return {raw["metadata"]["name"] for raw in self.all(kind)}

    def find(self, kind: Kind, name: str) -> Raw:
        return self._objects[kind, name]

    def status(self, name: str = "j") -> Raw:
        """The job's status without times."""
        status = copy.deepcopy(self._objects[VCJOB, name].get("status") or {})
        status.pop("runningDuration", None)
        status["state"] = status.get("state", {}).get("phase")
        status["conditions"] = [condition["status"] for condition in status.get("conditions") or ()]
        return status

    def phase(self, name: str = "j") -> str | None:
        phase: str | None = self.status(name)["state"]
        return phase

    def phases(self, name: str = "j") -> list[str | None]:
        """The phases that the job went through."""
        return self.history["Job", name]

    def group(self, name: str = "j") -> Raw:
        """The job's PodGroup."""
        uid = self._objects[VCJOB, name]["metadata"]["uid"]
        return self._objects[POD_GROUP, f"{name}-{uid}"]

    def group_history(self, name: str = "j") -> list[str | None]:
        uid = self._objects[VCJOB, name]["metadata"]["uid"]
        return self.history["PodGroup", f"{name}-{uid}"]

    def pod_versions(self) -> dict[str, tuple[str, str]]:
        """The version and the retry count in the annotations of the Pods."""
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["annotations"]["volcano.sh/job-version"],
                pod["metadata"]["annotations"]["volcano.sh/job-retry-count"],
            )
            for pod in self.all(POD)
        }

    def job_events(self, name: str = "j") -> list[tuple[str, str, str]]:
        """The type, reason and message of the Events about the job."""
        return [event[2:] for event in self.events if event[:2] == ("Job", name)]

    def status_writes(self) -> list[Patch]:
        return [w for w in self.writes if isinstance(w, Patch) and w.kind is VCJOB and w.subresource == "status"]


def running(raw: Raw, make_plugins: Any = no_plugins) -> World:
    """A world in which the job runs."""
    world = World(make_plugins)
    world.create(raw)
    world.run(3)
    assert world.phase(raw["metadata"]["name"]) == "Running"
    return world


def _phase(raw: Raw) -> str | None:
    phase: str | None = ((raw.get("status") or {}).get("state") or {}).get("phase")
    return phase


def _merged(old: Raw, body: Raw) -> Raw:
    """Applies a merge patch (RFC 7386)."""
    result = dict(old)
    for key, value in body.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            known = result.get(key)
            result[key] = _merged(known if isinstance(known, dict) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result
