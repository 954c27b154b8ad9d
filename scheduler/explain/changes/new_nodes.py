"""Adds nodes: copies of the smallest suitable node of the cluster, or nodes that are fitted to the Pods."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import Final

import msgspec
import numpy as np

from scheduler.api.cards import ASCEND_VENDOR, cards_of_pod, vendor_of
from scheduler.api.kinds import CSI_NODE, NODE, NUMATOPOLOGY, RESOURCE_SLICE
from scheduler.api.names import CHIP_NAME, HOSTNAME_LABEL, HUAWEI_PREFIX, MPS_REPLICAS, NODEGROUP_NAME, NVIDIA_GPU
from scheduler.api.objects import Node
from scheduler.api.resource import PODS_INDEX, format_amount
from scheduler.api.task import Task, TaskStatus
from scheduler.api.written_amounts import quantity
from scheduler.cluster.manifests import decode
from scheduler.cluster.memory.raw_objects import mutable_copy
from scheduler.explain.changes.node_fixes import fix_for, fixed_node
from scheduler.explain.queues import queue_position
from scheduler.framework.columns import Filter, Scope
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import GateKind
from scheduler.framework.remedies.nodes import compared_resources, passing_nodes, room
from scheduler.framework.remedies.registry import node_labels_of

_MAX_NODES: Final = 64
_MAX_NODES_BEHIND_OTHERS: Final = 512
"""The maximum number of new nodes where other jobs take some of them first."""
_MAX_FACTOR: Final = 4
_NOT_COPIED: Final = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "ownerReferences")
_BARE: Final[Raw] = {"metadata": {"labels": {HOSTNAME_LABEL: ""}}, "spec": {}, "status": {"allocatable": {}}}
"""The template of a new node if the cluster has none."""
_SHARED: Final = re.compile(r"mps-([0-9]{1,9})g\*1/([0-9]{1,9})")
_ROOM_FOR_PODS: Final = {"pods": "110"}


class NodeModel(msgspec.Struct, frozen=True):
    """The template of new nodes."""

    original: Raw
    """An existing node, or a bare one."""
    name: str
    """The name of the existing node; "" for the bare one."""
    fits: int
    """How many of the Pods fit on each new node."""
    amounts: dict[str, float] = msgspec.field(default_factory=dict)
    """Amounts that the new node has in addition to, or instead of, the original's."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of its node group and of the cards that the Pod needs."""
    task: Task | None = None
    """A Pod for which taints and labels of the node are adapted; None: the original accepts it."""


def add_nodes(evidence: Evidence) -> Iterator[Plan]:
    """Adds nodes like an existing one, or fitted to the Pods, where none of the existing nodes would do."""
    kinds = (
        GateKind.QUEUE,
        GateKind.NODES,
        GateKind.GANG,
        GateKind.ENQUEUE,
        GateKind.OVERUSED,
        GateKind.QUOTA,
        GateKind.PIPELINED,
        GateKind.PREEMPT,
        GateKind.RECLAIM,
    )
    if not evidence.has_gate(*kinds):
        return
    wanted = evidence.wanted
    with evidence.unplaced_tasks() as unplaced:
        # Pods that are pipelined to nodes of terminating Pods would get other nodes at once. Pods that all have room
        # are refused by a share of the cluster: it grows with the nodes that they could use.
        pipelined = evidence.job.of(TaskStatus.PIPELINED).values()
        asking = unplaced or wanted or sorted(pipelined, key=evidence.session.task_key)
        there = _existing_model(evidence, asking)
        models = [there] if there is not None else []
        if not models and asking:
            forms = (False, True) if len(evidence.rows) else (True,)
            models = [
                _fitted_model(evidence, asking[0], bare=bare) for bare in forms if _size_exists(evidence, asking[0])
            ]
        number = len(unplaced) if wanted else len(asking)
    for model in models:
        own = number / model.fits if model.fits else 1.0
        estimate = max(ceil(own), 1)
        change = partial(_with_nodes, evidence, model)
        most = max(
            estimate * _MAX_FACTOR,
            _MAX_NODES,
            min(estimate + 2 * _needed_by_other_jobs(evidence, model), _MAX_NODES_BEHIND_OTHERS),
        )
        shared = ceil(own + _taken_by_earlier_jobs(evidence, model))
        what = (model.name or "bare") if model.task is None else f"{model.name or 'bare'}, fitted"
        yield (Adjustment(ChangeKind.NODES, estimate, most, change, what, shared=shared),)


def _needed_by_other_jobs(evidence: Evidence, model: NodeModel) -> int:
    """The number of such nodes that all other waiting jobs need."""
    row = evidence.session.nodes.index.get(model.name)
    if row is None:
        return 0
    need, offered = evidence.other_jobs_need(), evidence.session.nodes.allocatable[:, row]
    asked = (need > 0) & (offered > 0)
    return int(np.ceil(need[asked] / offered[asked]).max(initial=0))


def _taken_by_earlier_jobs(evidence: Evidence, model: NodeModel) -> float:
    """The number of such nodes that the Pods of jobs earlier in the queue fill."""
    session, row = evidence.session, evidence.session.nodes.index.get(model.name)
    position = queue_position(session, evidence.job)
    if row is None or position is None:
        return 0.0
    waiting = Counter(
        task.cls
        for key in position.before
        for task in session.jobs[key].of(TaskStatus.PENDING).values()
        if not task.gated
    )
    fitting = {cls: room(session.nodes.allocatable[:, row], cls) for cls in waiting if not cls.best_effort}
    return sum(waiting[cls] / number for cls, number in fitting.items() if number)


def _existing_model(evidence: Evidence, asking: list[Task]) -> NodeModel | None:
    """The smallest existing node that would accept one of the Pods if it were empty; for a job without Pods, that has
    some of each resource that the job announces."""
    session = evidence.session
    nodes, fits = session.nodes, np.zeros(len(session.nodes), dtype=bool)
    fits[evidence.rows] = True
    fits &= ~nodes.facts.unschedulable
    if asking:
        cls = asking[0].cls
        static: list[Filter] = [f for f in session.filters(cls, evidence.job) if f.scope is Scope.STATIC]
        fits &= passing_nodes(session, static)
        for d in compared_resources(cls):
            fits &= nodes.allocatable[d] >= cls.request[d]
    else:
        for d in np.flatnonzero(evidence.need).tolist():
            fits &= nodes.allocatable[d] > 0
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    weighed = (nodes.allocatable[:, rows] / np.maximum(session.total, 1)[:, np.newaxis]).sum(axis=0)
    row = int(rows[weighed.argmin()])
    original = evidence.objects.find(NODE, "", nodes.names[row]) or _BARE
    return NodeModel(original, nodes.names[row], room(nodes.allocatable[:, row], asking[0].cls) if asking else 0)


def _size_exists(evidence: Evidence, task: Task) -> bool:
    """Whether, for each requested resource, some node has the amount, or no node has any of it."""
    nodes, rows = evidence.session.nodes, evidence.rows
    if not len(rows):
        return True
    dims = compared_resources(task.cls)
    largest = nodes.allocatable[dims][:, rows].max(axis=1)
    return bool(((task.cls.request[dims] <= largest) | (largest == 0)).all())


def _fitted_model(evidence: Evidence, task: Task, *, bare: bool) -> NodeModel:
    """A node for one Pod, like the node with the smallest shortage. ``bare``: a node with only what the Pod
    requests."""
    session, nodes = evidence.session, evidence.session.nodes
    dims = [d for d in compared_resources(task.cls) if d != PODS_INDEX]
    rows = evidence.rows
    short = np.maximum(task.cls.request[dims][:, np.newaxis] - nodes.allocatable[dims][:, rows], 0)
    original, name = _BARE, ""
    if len(rows) and not bare:
        best = int((short / np.maximum(session.total[dims], 1)[:, np.newaxis]).sum(axis=0).argmin())
        name, short = nodes.names[int(rows[best])], short[:, best : best + 1]
        original = evidence.objects.find(NODE, "", name) or _BARE
    else:
        short = task.cls.request[dims][:, np.newaxis]
    names = session.dimensions.names
    amounts = {names[d]: float(task.cls.request[d]) for d, missing in zip(dims, short[:, 0], strict=True) if missing}
    return NodeModel(original, name, 1, amounts, {**node_labels_of(evidence), **_card_labels(task, names)}, task)


def _card_labels(task: Task, names: Sequence[str]) -> dict[str, str]:
    """The labels of a node with the card that the Pod prefers: a whole one, or one that is shared or partitioned."""
    _, listed = cards_of_pod(task.cls.annotations)
    product, _, part = next(iter(listed.names), "").partition("/")
    asked = [names[d] for d in np.flatnonzero(task.cls.request).tolist() if "/" in names[d]]
    if not product or not asked:
        return {}
    if not part:
        return {f"{resource}.{key}": text for resource in asked for key, text in (("product", product), ("count", "1"))}
    if vendor_of(product) == ASCEND_VENDOR:
        return {CHIP_NAME: product}
    labels = {f"{NVIDIA_GPU}.product": product, f"{NVIDIA_GPU}.count": "1"}
    shared = _SHARED.fullmatch(part)
    if shared is not None:
        labels |= {f"{NVIDIA_GPU}.memory": str(int(shared[1]) * 1024), MPS_REPLICAS: shared[2]}
    return labels


def _with_nodes(evidence: Evidence, model: NodeModel, amount: int) -> Step:
    edits = []
    for name in _names(evidence, model.name or "node", amount):
        edits.append(Edit(NODE, "", name, partial(_new_node, model, name), creates=True))
        edits += _objects_of_node(evidence, model.name, name)
    nodes = "1 node" if amount == 1 else f"{amount} nodes"
    more = f"{nodes} like {model.name} more" if model.name else f"{nodes} more"
    return Step(more + _differences(model), tuple(edits))


def _objects_of_node(evidence: Evidence, model: str, name: str) -> Iterator[Edit]:
    """The objects that belong to a node: its Numatopology, CSINode and ResourceSlices."""
    server = evidence.objects
    for kind in (NUMATOPOLOGY, CSI_NODE):
        original = server.find(kind, "", model)
        if original is not None:
            yield Edit(kind, "", name, partial(_renamed, original, name), creates=True)
    for original in server.of(RESOURCE_SLICE):
        if model and original["spec"].get("nodeName") == model:
            own = f"{original['metadata']['name']}-of-{name}"
            yield Edit(RESOURCE_SLICE, "", own, partial(_slice_of, original, own, name), creates=True)


def _slice_of(original: Raw, own: str, node: str, blank: Raw) -> Raw:
    """A copy of a ResourceSlice, with its devices in a pool of the new node."""
    made = _renamed(original, own, blank)
    pool = made["spec"]["pool"]
    return {**made, "spec": {**made["spec"], "nodeName": node, "pool": {**pool, "name": f"{pool['name']}-of-{node}"}}}


def _differences(model: NodeModel) -> str:
    """How the new nodes differ from the original."""
    parts = [f"{quantity(resource, amount)} {resource}" for resource, amount in model.amounts.items()]
    parts += [f"card {text}" for key, text in model.labels.items() if key.endswith(".product") or key == CHIP_NAME]
    parts += [f"label {key}={text}" for key, text in model.labels.items() if key == NODEGROUP_NAME]
    if model.task is not None:
        fix = fix_for(_decoded(model.original), model.task.cls.spec, {}, is_new=True)
        parts += [f"label {key}={value}" for key, value in (fix.labels if fix else ())]
        bare = ", without taints" if fix and fix.removals else ""
    else:
        bare = ""
    return (f", with {', '.join(parts)}" if parts else "") + bare


def _names(evidence: Evidence, stem: str, number: int) -> Iterator[str]:
    suffix = 2
    while number:
        name = f"{stem}-{suffix}"
        if evidence.objects.find(NODE, "", name) is None:
            number -= 1
            yield name
        suffix += 1


def _new_node(model: NodeModel, name: str, blank: Raw) -> Raw:
    """A new, empty node like the model."""
    made = _renamed(model.original, name, blank)
    labels, annotations = made["metadata"].get("labels") or {}, made["metadata"].get("annotations") or {}
    if HOSTNAME_LABEL in labels:
        labels = {**labels, HOSTNAME_LABEL: name}
    made["metadata"]["labels"] = {**labels, **model.labels}
    made["spec"] = {"taints": taints} if (taints := (made.get("spec") or {}).get("taints")) else {}
    # The free chips that a device plugin lists are those of the original node.
    made["metadata"]["annotations"] = {k: v for k, v in annotations.items() if not k.startswith(HUAWEI_PREFIX)}
    if model.task is not None:
        status = made.setdefault("status", {})
        more = {resource: format_amount(resource, amount) for resource, amount in model.amounts.items()}
        status["allocatable"] = {**_ROOM_FOR_PODS, **(status.get("allocatable") or {}), **more}
        fix = fix_for(_decoded(made), model.task.cls.spec, {}, is_new=True)
        made = made if fix is None else fixed_node(fix, made)
    return made


def _renamed(original: Raw, name: str, blank: Raw) -> Raw:
    made = mutable_copy(original)
    meta = {key: value for key, value in made["metadata"].items() if key not in _NOT_COPIED}
    return {**made, "metadata": {**meta, "name": name}}


def _decoded(raw: Raw) -> Node:
    node = decode(NODE, {"apiVersion": NODE.api_version, "kind": NODE.name, **raw}, "a node")
    assert isinstance(node, Node)
    return node
