"""More nodes: as many as it takes like the smallest of those there that would do, or else made to measure."""

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final

import numpy as np

from scheduler.api.kinds import CSI_NODE, NODE, NUMATOPOLOGY, RESOURCE_SLICE
from scheduler.api.names import ASCEND_910, CARD_NAME, HOSTNAME_LABEL, MPS_REPLICAS, NODEGROUP_NAME, NVIDIA_GPU
from scheduler.api.objects import Node
from scheduler.api.resource import PODS_INDEX, format_amount
from scheduler.api.task import Task, TaskStatus
from scheduler.api.written_amounts import quantity
from scheduler.cluster.manifests import decode
from scheduler.explain.changes.mending import mended, mends
from scheduler.explain.turn import turn
from scheduler.framework.columns import Filter, Scope
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Held
from scheduler.framework.remedies.nodes import compared, passing, room
from scheduler.framework.remedies.registry import node_labels_of

_MOST_NODES: Final = 64
_MOST_WITH_OTHERS: Final = 512
"""So many nodes are tried where other jobs take the first of them."""
_SPARE: Final = 4
_LEFT_OUT: Final = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "ownerReferences")
_BARE: Final[Raw] = {"metadata": {"labels": {HOSTNAME_LABEL: ""}}, "spec": {}, "status": {"allocatable": {}}}
"""What a node is made from where there is none."""
_SHARED: Final = re.compile(r"mps-([0-9]{1,9})g\*1/([0-9]{1,9})")
_ROOM_FOR_PODS: Final = {"pods": "110"}


@dataclass(frozen=True, slots=True)
class Model:
    """What the new nodes look like."""

    original: Raw
    """A node that is there, or a bare one."""
    name: str
    """Its name; "" for the bare one."""
    fits: int
    """How many of the Pods each would take."""
    amounts: dict[str, float] = field(default_factory=dict)
    """Amounts it has to offer besides, or more of."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that name its node group and the cards it has to have."""
    task: Task | None = None
    """A Pod whose taints and labels the node has to suit; None: it does."""


def more_nodes(evidence: Evidence) -> Iterator[Plan]:
    held = (Held.QUEUE, Held.NODES, Held.GANG, Held.ENQUEUE, Held.OVERUSED, Held.QUOTA, Held.PREEMPT, Held.RECLAIM)
    if not evidence.held(*held):
        return
    with evidence.crowded() as left:
        asking = left or evidence.wanted
        there = _one_there(evidence, asking)
        models = [there] if there is not None else []
        if not models and asking:
            forms = (False, True) if len(evidence.rows) else (True,)
            models = [
                _made_to_measure(evidence, asking[0], bare=bare) for bare in forms if _exists(evidence, asking[0])
            ]
        number = len(left)
    for model in models:
        own = number / model.fits if model.fits else 1.0
        guess = max(ceil(own), 1)
        change = partial(_with_nodes, evidence, model)
        most = max(guess * _SPARE, _MOST_NODES, min(guess + 2 * _for_others(evidence, model), _MOST_WITH_OTHERS))
        shared = ceil(own + _taken_first(evidence, model))
        yield (Adjustment(ChangeKind.NODES, guess, most, change, model.name or "bare", shared=shared),)


def _for_others(evidence: Evidence, model: Model) -> int:
    """How many such nodes would do for all that the other jobs wait for."""
    row = evidence.session.nodes.index.get(model.name)
    if row is None:
        return 0
    need, offered = evidence.others_need(), evidence.session.nodes.allocatable[:, row]
    asked = (need > 0) & (offered > 0)
    return int(np.ceil(need[asked] / offered[asked]).max(initial=0))


def _taken_first(evidence: Evidence, model: Model) -> float:
    """How many such nodes the Pods of the jobs would fill that have their turn before the job."""
    session, row = evidence.session, evidence.session.nodes.index.get(model.name)
    place = turn(session, evidence.job)
    if row is None or place is None:
        return 0.0
    waiting = Counter(
        task.cls for key in place.before for task in session.jobs[key].of(TaskStatus.PENDING).values() if not task.gated
    )
    rooms = {cls: room(session.nodes.allocatable[:, row], cls) for cls in waiting if not cls.best_effort}
    return sum(waiting[cls] / number for cls, number in rooms.items() if number)


def _one_there(evidence: Evidence, asking: list[Task]) -> Model | None:
    """The smallest node that would take one of the Pods if it were empty."""
    session = evidence.session
    nodes, fits = session.nodes, np.zeros(len(session.nodes), dtype=bool)
    fits[evidence.rows] = True
    fits &= ~nodes.facts.unschedulable
    if asking:
        cls = asking[0].cls
        static: list[Filter] = [f for f in session.filters(cls, evidence.job) if f.scope is Scope.STATIC]
        fits &= passing(session, static)
        for d in compared(cls):
            fits &= nodes.allocatable[d] >= cls.request[d]
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    weighed = (nodes.allocatable[:, rows] / np.maximum(session.total, 1)[:, np.newaxis]).sum(axis=0)
    row = int(rows[weighed.argmin()])
    original = evidence.objects.find(NODE, "", nodes.names[row]) or _BARE
    return Model(original, nodes.names[row], room(nodes.allocatable[:, row], asking[0].cls) if asking else 0)


def _exists(evidence: Evidence, task: Task) -> bool:
    """Whether of everything that a task asks for there is a node with as much, or none with any."""
    nodes, rows = evidence.session.nodes, evidence.rows
    if not len(rows):
        return True
    dims = compared(task.cls)
    largest = nodes.allocatable[dims][:, rows].max(axis=1)
    return bool(((task.cls.request[dims] <= largest) | (largest == 0)).all())


def _made_to_measure(evidence: Evidence, task: Task, *, bare: bool) -> Model:
    """A node for one such Pod, like the one that comes nearest; ``bare``: with nothing but what the Pod asks for."""
    session, nodes = evidence.session, evidence.session.nodes
    dims = [d for d in compared(task.cls) if d != PODS_INDEX]
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
    return Model(original, name, 1, amounts, {**node_labels_of(evidence), **_card_labels(task, names)}, task)


def _card_labels(task: Task, names: Sequence[str]) -> dict[str, str]:
    """The labels of a node with the card that a Pod would like best: a whole one, or one that is shared or split."""
    product, _, part = task.cls.annotations.get(CARD_NAME, "").split("|")[0].strip().partition("/")
    asked = [names[d] for d in np.flatnonzero(task.cls.request).tolist() if "/" in names[d]]
    if not product or not asked:
        return {}
    if not part:
        return {f"{resource}.{key}": text for resource in asked for key, text in (("product", product), ("count", "1"))}
    labels = {f"{NVIDIA_GPU}.product": product, f"{NVIDIA_GPU}.count": "1"}
    shared = _SHARED.fullmatch(part)
    if shared is not None:
        labels |= {f"{NVIDIA_GPU}.memory": str(int(shared[1]) * 1024), MPS_REPLICAS: shared[2]}
    return labels


def _with_nodes(evidence: Evidence, model: Model, degree: int) -> Step:
    edits = []
    for name in _names(evidence, model.name or "node", degree):
        edits.append(Edit(NODE, "", name, partial(_new_node, model, name), creates=True))
        edits += _companions(evidence, model.name, name)
    like = f" like {model.name}" if model.name else ""
    return Step(f"{degree} {'node' if degree == 1 else 'nodes'}{like} more{_besides(model)}", tuple(edits))


def _companions(evidence: Evidence, model: str, name: str) -> Iterator[Edit]:
    """What else there is of a node: its NUMA nodes, its CSI drivers, its devices."""
    server = evidence.objects
    for kind in (NUMATOPOLOGY, CSI_NODE):
        theirs = server.find(kind, "", model)
        if theirs is not None:
            yield Edit(kind, "", name, partial(_renamed, theirs, name), creates=True)
    for theirs in server.of(RESOURCE_SLICE):
        if model and theirs["spec"].get("nodeName") == model:
            own = f"{theirs['metadata']['name']}-of-{name}"
            yield Edit(RESOURCE_SLICE, "", own, partial(_slice_of, theirs, own, name), creates=True)


def _slice_of(theirs: Raw, own: str, node: str, blank: Raw) -> Raw:
    """The devices of the model, in a pool of the new node's."""
    made = _renamed(theirs, own, blank)
    pool = made["spec"]["pool"]
    return {**made, "spec": {**made["spec"], "nodeName": node, "pool": {**pool, "name": f"{pool['name']}-of-{node}"}}}


def _besides(model: Model) -> str:
    """How the new nodes differ from their model."""
    parts = [f"{quantity(resource, amount)} {resource}" for resource, amount in model.amounts.items()]
    parts += [f"card {text}" for key, text in model.labels.items() if key.endswith(".product")]
    parts += [f"label {key}={text}" for key, text in model.labels.items() if key == NODEGROUP_NAME]
    if model.task is not None:
        mend = mends(_decoded(model.original), model.task.cls.spec, {})
        parts += [f"label {key}={value}" for key, value in (mend.labels if mend else ())]
        bare = ", without taints" if mend and (mend.taints or mend.uncordon) else ""
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


def _new_node(model: Model, name: str, blank: Raw) -> Raw:
    """A node like the model, empty."""
    made = _renamed(model.original, name, blank)
    labels, annotations = made["metadata"].get("labels") or {}, made["metadata"].get("annotations") or {}
    if HOSTNAME_LABEL in labels:
        labels = {**labels, HOSTNAME_LABEL: name}
    made["metadata"]["labels"] = {**labels, **model.labels}
    made["spec"] = {"taints": taints} if (taints := (made.get("spec") or {}).get("taints")) else {}
    # What a device plugin says of the chips that are free is said of the other node.
    made["metadata"]["annotations"] = {k: v for k, v in annotations.items() if not k.startswith(ASCEND_910)}
    if model.task is not None:
        status = made.setdefault("status", {})
        more = {resource: format_amount(resource, amount) for resource, amount in model.amounts.items()}
        status["allocatable"] = {**_ROOM_FOR_PODS, **(status.get("allocatable") or {}), **more}
        mend = mends(_decoded(made), model.task.cls.spec, {})
        made = made if mend is None else mended(mend, made)
    return made


def _renamed(original: Raw, name: str, blank: Raw) -> Raw:
    made = copy.deepcopy(original)
    meta = {key: value for key, value in made["metadata"].items() if key not in _LEFT_OUT}
    return {**made, "metadata": {**meta, "name": name}}


def _decoded(raw: Raw) -> Node:
    node = decode(NODE, {"apiVersion": NODE.api_version, "kind": NODE.name, **raw}, "a node")
    assert isinstance(node, Node)
    return node
