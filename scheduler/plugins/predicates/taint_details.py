"""Lists all taints that keep a Pod off nodes, with their effects, for ``explain``. The reason that the filter gives
names the first taint of each node."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import TaintKey
from scheduler.api.pod_rules import taint_text, untolerated
from scheduler.api.task import Task
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.predicates.plugin import OTHER_TAINTS, TAINTED, Predicates

_SHOWN: Final = 5


@pod_details(Predicates)
def untolerated_taints(session: Session, plugin: Predicates, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields a gate for each taint that the Pod does not tolerate, those of most nodes first, with their number."""
    if not any(reason.startswith((TAINTED, OTHER_TAINTS)) for reason in reasons):
        return
    facts, tolerations = session.nodes.facts, task.cls.spec.tolerations or []
    sizes = np.bincount(facts.taint_codes, minlength=len(facts.taint_sets)).tolist()
    found: Counter[TaintKey] = Counter()
    for taints, number in zip(facts.taint_sets, sizes, strict=True):
        for taint in set(untolerated(taints, tolerations)):
            found[taint] += number
    ordered = sorted((-number, taint) for taint, number in found.items() if number)
    for number, taint in ordered[:_SHOWN]:
        text = f"{task.name}: {-number} nodes have the taint {taint_text(*taint)}, which it does not tolerate"
        if number == -1:
            text = f"{task.name}: 1 node has the taint {taint_text(*taint)}, which it does not tolerate"
        yield Gate(GateKind.NODES, text, Predicates.name)
    if len(ordered) > _SHOWN:
        text = f"{task.name}: nodes have {len(ordered) - _SHOWN} other taints, which it does not tolerate"
        yield Gate(GateKind.NODES, text, Predicates.name)
