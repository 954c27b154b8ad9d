"""The controllers of Deployments, ReplicaSets, StatefulSets and batch/v1 Jobs in a simulation.

They create missing Pods and delete surplus ones. Pods are counted by their controller, so Pods that were read from a
cluster are not created again. A Deployment with ReplicaSets keeps them: neither rollouts nor the completion of Pods are
simulated.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from scheduler.api.kinds import (
    BATCH_JOB,
    CLAIM,
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    RESOURCE_QUOTA,
    STATEFUL_SET,
    Kind,
    find_kind,
)
from scheduler.api.names import POD_TEMPLATE_HASH
from scheduler.api.objects import ENDED_PHASES, KubeObject, LabelSelector, Pod
from scheduler.api.selectors import matches
from scheduler.cluster.memory.raw_objects import Json, controller_of
from scheduler.cluster.memory.server import ForbiddenError, Key, MemoryServer, key_of
from scheduler.cluster.memory.workload_manifests import (
    COMPLETION_INDEX,
    as_object,
    count,
    generated_name,
    job_labels,
    new_pod,
    new_replica_set,
)

_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"


class Workloads:
    """The workload controllers. They process only workloads that changed or whose Pods changed."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._changed: dict[Kind, dict[Key, None]] = {}
        self._refused: dict[Key, Kind] = {}
        """Workloads of which a Pod was refused."""
        self._syncs: dict[Kind, Callable[[Json], bool]] = {
            DEPLOYMENT: self._sync_deployment,
            REPLICA_SET: self._sync_replica_set,
            STATEFUL_SET: self._sync_stateful_set,
            BATCH_JOB: self._sync_job,
        }
        server.watch(self._observe)

    def run(self) -> bool:
        """Creates and deletes ReplicaSets and Pods as needed. Returns whether anything changed."""
        changed = False
        while self._changed:
            kind = next(kind for kind in self._syncs if kind in self._changed)
            for key in self._changed.pop(kind):
                raw = self._server.find(kind, key[1], key[2])
                if raw is None or raw["metadata"].get("deletionTimestamp"):
                    continue
                if isinstance((raw.get("spec") or {}).get("template"), dict):
                    changed |= self._syncs[kind](raw)
        return changed

    def _observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        obj = new or old
        if obj is None:
            return
        if kind is POD:
            if old is not None and new is not None and _relevant_fields(old) == _relevant_fields(new):
                return
        elif kind is RESOURCE_QUOTA:
            for key, refused in self._refused.items():
                self._changed.setdefault(refused, {})[key] = None
            self._refused = {}
        elif kind not in self._syncs:
            return
        elif new is not None:
            self._changed.setdefault(kind, {})[key_of(kind, obj.metadata.namespace, obj.metadata.name)] = None
        for owner in obj.metadata.owner_references or ():
            owner_kind = find_kind(owner.api_version, owner.kind)
            if owner.controller and owner_kind in self._syncs:
                self._changed.setdefault(owner_kind, {})[key_of(owner_kind, obj.metadata.namespace, owner.name)] = None

    # --- one workload -------------------------------------------------------------------------------------------------
    def _sync_deployment(self, deployment: Json) -> bool:
        spec = deployment.get("spec") or {}
        own = list(self._controlled(REPLICA_SET, deployment))
        if not own:
            missing = list(self._replica_sets_of_pods(deployment))
            if not missing and not spec.get("paused"):
                missing = [new_replica_set(deployment)]
            created = [self._server.create(REPLICA_SET, raw) for raw in missing]
            return any(created)
        active = [raw for raw in own if count(raw.get("spec") or {}, "replicas")]
        if len(active) > 1:
            return False  # in a rollout, which is not simulated
        scaled = active[0] if active else max(own, key=lambda raw: str(raw["metadata"].get("creationTimestamp", "")))
        number, meta = count(spec, "replicas"), scaled["metadata"]
        if count(scaled.get("spec") or {}, "replicas") == number:
            return False
        return self._server.patch(REPLICA_SET, meta["namespace"], meta["name"], {"spec": {"replicas": number}})

    def _replica_sets_of_pods(self, deployment: Json) -> Iterator[Json]:
        """The ReplicaSets of the Deployment's Pods, if they are missing: Pods may be read without them."""
        pods: dict[tuple[str, str], list[Json]] = {}
        for pod in self._server.by_index(POD, _replica_set_namespace, deployment["metadata"]["namespace"]):
            owner = controller_of(pod) or {}
            if not self._server.exists(str(owner.get("uid"))) and _is_selected(deployment, pod):
                pods.setdefault((str(owner.get("name")), str(owner.get("uid"))), []).append(pod)
        for (name, uid), own in pods.items():
            made = new_replica_set(deployment, (own[0]["metadata"].get("labels") or {}).get(POD_TEMPLATE_HASH))
            made["metadata"] |= {"name": name, "uid": uid}
            if len(pods) > 1:
                made["spec"]["replicas"] = sum(map(_is_active, own))
            yield made

    def _sync_replica_set(self, replica_set: Json) -> bool:
        desired = count(replica_set.get("spec") or {}, "replicas")
        return self._sync_pods(REPLICA_SET, replica_set, desired)

    def _sync_job(self, job: Json) -> bool:
        spec, status = job.get("spec") or {}, job.get("status") or {}
        finished = any(
            c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in _conditions(status)
        )
        if finished or spec.get("suspend") or spec.get("managedBy", _JOB_CONTROLLER) != _JOB_CONTROLLER:
            return False
        pods = list(self._controlled(POD, job))
        done = max(count(status, "succeeded", 0), sum(pod["status"].get("phase") == "Succeeded" for pod in pods))
        desired = count(spec, "parallelism")
        if spec.get("completions") is not None:
            desired = min(desired, max(count(spec, "completions") - done, 0))
        elif done:
            return False  # without completions, no Pod is created after the first that succeeded
        indices = self._free_indices(job, pods) if spec.get("completionMode") == "Indexed" else None
        return self._sync_pods(BATCH_JOB, job, desired, indices)

    def _sync_stateful_set(self, stateful_set: Json) -> bool:
        meta, spec = stateful_set["metadata"], stateful_set.get("spec") or {}
        first = count(as_object(spec.get("ordinals")), "start", 0)
        last = first + count(spec, "replicas")
        # The API server sets the policy; a manifest without it gets all its Pods at once.
        is_ordered = spec.get("podManagementPolicy") == "OrderedReady"
        changed = False
        for ordinal in range(first, last):
            name = f"{meta['name']}-{ordinal}"
            pod = self._server.find(POD, meta["namespace"], name)
            if pod is None:
                changed |= self._create_pod(STATEFUL_SET, stateful_set, self._stateful_pod(stateful_set, ordinal, name))
            elif pod["status"].get("phase") in ENDED_PHASES and not pod["metadata"].get("deletionTimestamp"):
                changed |= self._server.delete(POD, meta["namespace"], name)
            if is_ordered and (pod is None or pod["status"].get("phase") != "Running"):
                break
        for pod in list(self._controlled(POD, stateful_set)):
            number = pod["metadata"]["name"].rpartition("-")[2]
            if number.isdecimal() and not first <= int(number) < last and not pod["metadata"].get("deletionTimestamp"):
                changed |= self._server.delete(POD, meta["namespace"], pod["metadata"]["name"])
        return changed

    # --- Pods ---------------------------------------------------------------------------------------------------------
    def _controlled(self, kind: Kind, workload: Json) -> Iterator[Json]:
        """The objects of a kind that the workload controls."""
        meta = workload["metadata"]
        uid = meta["uid"]
        for raw in self._server.owned(kind, meta["namespace"], uid):
            controller = controller_of(raw)
            if controller is not None and controller.get("uid") == uid:
                yield raw

    def _sync_pods(self, kind: Kind, workload: Json, desired: int, indices: Iterator[int] | None = None) -> bool:
        """Creates missing Pods, or deletes surplus ones. Returns whether anything changed."""
        active = [pod for pod in self._controlled(POD, workload) if _is_active(pod)]
        namespace, changed = workload["metadata"]["namespace"], False
        for pod in _in_deletion_order(active)[: max(len(active) - desired, 0)]:
            changed |= self._server.delete(POD, namespace, pod["metadata"]["name"])
        if len(active) >= desired:
            return changed
        names = self._free_names(workload, indices)
        for _ in range(desired - len(active)):
            name, index = next(names, ("", None))
            if not name:
                break
            labels = job_labels(kind, workload, index)
            if not self._create_pod(kind, workload, new_pod(kind, workload, name, labels)):
                break
            changed = True
        return changed

    def _create_pod(self, kind: Kind, workload: Json, pod: Json) -> bool:
        """Returns whether the Pod was created. A workload whose Pod a quota refuses is processed again when one
        changes."""
        try:
            return self._server.create(POD, pod)
        except ForbiddenError:
            meta = workload["metadata"]
            self._refused[key_of(kind, meta["namespace"], meta["name"])] = kind
            return False

    def _free_names(self, workload: Json, indices: Iterator[int] | None) -> Iterator[tuple[str, int | None]]:
        """Unused names for Pods, the same in every simulation, with the index of each Pod of an indexed Job."""
        meta, number = workload["metadata"], 0
        while True:
            index = None if indices is None else next(indices, None)
            if indices is not None and index is None:
                return
            prefix = f"{meta['name']}-" if index is None else f"{meta['name']}-{index}-"
            while self._server.find(POD, meta["namespace"], generated_name(prefix, meta["uid"], number)) is not None:
                number += 1
            yield generated_name(prefix, meta["uid"], number), index
            number += 1

    def _free_indices(self, job: Json, pods: list[Json]) -> Iterator[int]:
        """The completion indices without an active or succeeded Pod."""
        taken = _index_ranges((job.get("status") or {}).get("completedIndexes"))
        for pod in pods:
            index = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
            if index.isdecimal() and (_is_active(pod) or pod["status"].get("phase") == "Succeeded"):
                taken.append((int(index), int(index)))
        for index in range(count(job.get("spec") or {}, "completions")):
            if not any(low <= index <= high for low, high in taken):
                yield index

    def _stateful_pod(self, stateful_set: Json, ordinal: int, name: str) -> Json:
        """A Pod of a StatefulSet. Creates its claims, which outlive the Pod."""
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
        pod, mounted = new_pod(STATEFUL_SET, stateful_set, name, {"labels": labels}), []
        meta = stateful_set["metadata"]
        claims = stateful_set["spec"].get("volumeClaimTemplates")
        for template in _items(claims):
            if not isinstance(template, dict):
                continue
            own = as_object(template.get("metadata"))
            name_of_volume = str(own.get("name") or "")
            claim = f"{name_of_volume}-{meta['name']}-{ordinal}"
            manifest = {
                "apiVersion": CLAIM.api_version,
                "kind": CLAIM.name,
                "metadata": {
                    **{k: copy.deepcopy(own[k]) for k in ("labels", "annotations") if own.get(k)},
                    "name": claim,
                    "namespace": meta["namespace"],
                },
                "spec": template.get("spec") or {},
            }
            self._server.create(CLAIM, manifest)
            mounted.append({"name": name_of_volume, "persistentVolumeClaim": {"claimName": claim}})
        names = {volume["name"] for volume in mounted}
        spec = pod["spec"]
        others = [volume for volume in _items(spec.get("volumes")) if as_object(volume).get("name") not in names]
        return {**pod, "spec": {**spec, "volumes": [*others, *mounted]} if mounted else spec}


def _items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def _replica_set_namespace(pod: Json) -> str | None:
    """The namespace of a Pod of a ReplicaSet."""
    owner = controller_of(pod)
    return pod["metadata"]["namespace"] if owner is not None and owner.get("kind") == REPLICA_SET.name else None


def _is_selected(workload: Json, pod: Json) -> bool:
    """Whether the selector of a workload selects a Pod."""
    try:
        selector = msgspec.convert((workload.get("spec") or {}).get("selector"), LabelSelector)
    except msgspec.ValidationError:
        return False
    return matches(selector, pod["metadata"].get("labels") or {})


# --- counts and names ---
def _relevant_fields(pod: KubeObject) -> tuple[object, ...]:
    """The fields of a Pod that affect its workload."""
    assert isinstance(pod, Pod)
    return (pod.status.phase, bool(pod.metadata.deletion_timestamp))


def _is_active(pod: Json) -> bool:
    """Whether a Pod counts as a replica: a finished or terminating Pod is replaced."""
    return pod["status"].get("phase") not in ENDED_PHASES and not pod["metadata"].get("deletionTimestamp")


def _in_deletion_order(pods: list[Json]) -> list[Json]:
    """Pods without a node first, then those that do not run yet, then the youngest."""
    youngest = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True)
    return sorted(
        youngest, key=lambda pod: (bool(pod["spec"].get("nodeName")), pod["status"].get("phase") == "Running")
    )


def _conditions(status: Json) -> list[Json]:
    found = status.get("conditions")
    return [condition for condition in found if isinstance(condition, dict)] if isinstance(found, list) else []


def _index_ranges(text: Any) -> list[tuple[int, int]]:
    """The ranges in a Job's ``completedIndexes``, such as ``1,3-5``."""
    ranges = []
    for part in str(text or "").split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and (high or low).isdecimal():
            ranges.append((int(low), int(high or low)))
    return ranges
