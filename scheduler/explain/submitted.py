"""What a user asks about before submitting it: the jobs, Pods and workloads in manifests, each with the objects that
belong to it, and the objects beside them, such as claims."""

import copy
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.api import kinds
from scheduler.api.kinds import Kind
from scheduler.api.names import DEFAULT_NAMESPACE, GROUP_NAME, WHAT_IF
from scheduler.cluster.manifests import Manifest, ManifestError

WORDS: Final[dict[Kind, str]] = {
    kinds.VCJOB: "job",
    kinds.ACJOB: "acjob",
    kinds.JOB_FLOW: "jobflow",
    kinds.POD_GROUP: "podgroup",
    kinds.POD: "pod",
    kinds.DEPLOYMENT: "deployment",
    kinds.REPLICA_SET: "replicaset",
    kinds.STATEFUL_SET: "statefulset",
    kinds.BATCH_JOB: "job",
}
"""The kinds that can be asked about -> their key in ``EXPLAINED``. CronJobs are asked about through their next job."""
_GENERATED: Final = "xxxxx"
"""Stands for the part of a name that the API server generates."""
_NEXT: Final = "-next"
"""The end of the name of a CronJob's next job."""
Raw = dict[str, Any]


class Submitted(msgspec.Struct, frozen=True):
    """A job, Pod or workload, with the objects that are submitted for it."""

    kind: Kind
    """The kind of the object that is explained."""
    namespace: str
    name: str
    """Name of the object that is explained."""
    submitted_name: str
    """Name of the object as submitted: of a CronJob, not of its next job."""
    manifests: tuple[Manifest, ...]
    """The objects to submit, in order."""
    checked: Manifest | None = None
    """The CronJob, which admission checks, and which is not created; None: it is no CronJob."""

    @property
    def kind_name(self) -> str:
        """The kind as submitted, such as ``CronJob``."""
        return self.kind.name if self.checked is None else self.checked.raw["kind"]

    @property
    def queue(self) -> str:
        """The queue that the object names, or ""."""
        spec = _mapping(self.manifests[-1].raw.get("spec"))
        policy = _mapping(_mapping(spec.get("runPolicy")).get("schedulingPolicy"))
        name = spec.get("queue") or policy.get("queue")
        return name if isinstance(name, str) else ""

    @property
    def word(self) -> str:
        """The key of the kind in ``EXPLAINED``."""
        return WORDS[self.kind]


def submitted(manifests: Sequence[Manifest], namespace: str) -> tuple[list[Manifest], list[Submitted]]:
    """The objects beside the jobs, and the jobs, in order. ``namespace``: of objects that name none. Raises
    ManifestError."""
    named = [_named(manifest, namespace or DEFAULT_NAMESPACE) for manifest in manifests]
    groups = {_key(each): [each] for each in named if each.kind is kinds.POD_GROUP}
    by_workload = dict[int, list[Manifest]]()
    beside, jobs = list[Manifest](), list[Manifest]()
    for manifest in named:
        group = _group_of(manifest)
        if manifest.kind is kinds.POD and group in groups:
            groups[group].append(manifest)
        elif manifest.kind in WORDS or _is_cron_job(manifest):
            jobs.append(manifest)
            if group in groups:
                by_workload[id(manifest)] = groups[group]
        else:
            beside.append(manifest)
    found = list[Submitted]()
    for manifest in jobs:
        own = groups.get(_key(manifest), [manifest])
        if not any(own is each for each in by_workload.values()):  # else its workload is asked about
            found.append(_submitted(manifest, (*by_workload.get(id(manifest), ()), *own)))
    if not found:
        titles = ", ".join(dict.fromkeys(kind.name for kind in WORDS))
        raise ManifestError(f"no object to ask about: expected one of {titles} and CronJob")
    return beside, found


def number_of_pods(manifests: Sequence[Manifest]) -> int:
    """The number of Pods that jobs and workloads ask for; fields that are no numbers count as one Pod."""
    return sum(map(_number_of_pods, manifests))


def _number_of_pods(manifest: Manifest) -> int:
    spec = _mapping(manifest.raw.get("spec"))
    if _is_cron_job(manifest):
        inner = {**_mapping(spec.get("jobTemplate")), "kind": "Job"}
        return _number_of_pods(Manifest(manifest.where, kinds.VCJOB, inner))
    if manifest.kind in (kinds.VCJOB, kinds.JOB_TEMPLATE) and isinstance(spec.get("tasks"), list):
        return sum(_count(task, "replicas") for task in spec["tasks"])
    if manifest.kind is kinds.ACJOB:
        return sum(_count(role, "replicas") for role in _mapping(spec.get("replicaSpecs")).values())
    return max(_count(spec, "replicas"), _count(spec, "parallelism")) if manifest.kind in WORDS else 0


def _count(fields: object, name: str) -> int:
    value = _mapping(fields).get(name, 1)
    return max(value, 0) if isinstance(value, int) else 1


def _mapping(value: Any) -> Raw:
    return value if isinstance(value, dict) else {}


# --- single objects ---
def _named(manifest: Manifest, namespace: str) -> Manifest:
    """The object with its namespace and a name. Raises ManifestError if no question about it can be answered."""
    raw, kind = manifest.raw, manifest.kind
    meta = dict(raw["metadata"])
    where = f"{manifest.where}: {raw['kind']} {meta.get('name') or meta.get('generateName')}"
    if meta.get("ownerReferences"):
        raise ManifestError(f"{where}: metadata.ownerReferences: its owner creates it: ask about the owner")
    if WHAT_IF in _mapping(meta.get("annotations")):
        raise ManifestError(f"{where}: metadata.annotations[{WHAT_IF}]: only simulate makes such changes")
    if kind is kinds.POD and _mapping(raw.get("spec")).get("nodeName"):
        raise ManifestError(f"{where}: spec.nodeName: no scheduler places a Pod that names its node")
    if not meta.get("name"):
        meta["name"] = f"{meta['generateName']}{_GENERATED}"
    if kind is None or kind.namespaced:
        meta.setdefault("namespace", namespace)
    return Manifest(manifest.where, kind, {**raw, "metadata": meta})


def _key(manifest: Manifest) -> tuple[str, str]:
    meta = manifest.raw["metadata"]
    return (meta.get("namespace", ""), meta["name"]) if manifest.kind is kinds.POD_GROUP else ("", "")


def _group_of(manifest: Manifest) -> tuple[str, str]:
    """The PodGroup that a Pod, or the Pod template of a workload, names; ("", ""): none."""
    meta = manifest.raw["metadata"]
    named = meta
    if manifest.kind is not kinds.POD:
        named = _mapping(_mapping(_mapping(manifest.raw.get("spec")).get("template")).get("metadata"))
    name = _mapping(named.get("annotations")).get(GROUP_NAME)
    return (meta["namespace"], name) if isinstance(name, str) and name else ("", "")


def _is_cron_job(manifest: Manifest) -> bool:
    """Whether an object is a CronJob, of Volcano or of Kubernetes."""
    return manifest.kind in (kinds.CRON_JOB, kinds.BATCH_CRON_JOB)


def _submitted(manifest: Manifest, objects: Sequence[Manifest]) -> Submitted:
    """``objects``: what is submitted for it. Raises ManifestError."""
    raw = manifest.raw
    meta = raw["metadata"]
    if not _is_cron_job(manifest):
        assert manifest.kind is not None
        return Submitted(manifest.kind, meta["namespace"], meta["name"], meta["name"], tuple(objects))
    template = _mapping(_mapping(raw.get("spec")).get("jobTemplate"))
    if not isinstance(template.get("spec"), dict):
        raise ManifestError(f"{manifest.where}: CronJob {meta['name']}: spec.jobTemplate.spec: expected an object")
    kind = kinds.VCJOB if manifest.kind is kinds.CRON_JOB else kinds.BATCH_JOB
    own = _mapping(template.get("metadata"))
    name = f"{meta['name']}{_NEXT}"
    job = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            **{key: copy.deepcopy(own[key]) for key in ("labels", "annotations") if isinstance(own.get(key), dict)},
        },
        "spec": copy.deepcopy(template["spec"]),
    }
    made = Manifest(manifest.where, kind, job)
    return Submitted(kind, meta["namespace"], name, meta["name"], (made,), manifest)
