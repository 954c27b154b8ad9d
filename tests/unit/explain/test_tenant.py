"""Explanations for tenants contain no names of other tenants' objects. Words that are also such names stay words."""

from typing import Any

import pytest

from scheduler.api.kinds import HYPER_NODE, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VCJOB, VOLUME, Kind
from scheduler.api.reasons import Shortage
from scheduler.explain.explanation import Change, Explanation, Outlook, QueuePosition, Ranking, RefusingNodes
from scheduler.explain.tenant import HiddenNames, for_tenant, hidden_names
from scheduler.framework.remedies.gates import Gate, GateKind

Raw = dict[str, Any]


class Objects:
    def __init__(self, *held: tuple[Kind, str, str, str]) -> None:
        self._held = held

    def of(self, kind: Kind) -> list[Raw]:
        """``held``: kind, namespace (for a volume: of its claim), name, and the node of a Pod."""
        return [
            {
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"nodeName": node, "claimRef": {"namespace": namespace}},
            }
            for each, namespace, name, node in self._held
            if each is kind
        ]


@pytest.fixture
def hidden() -> HiddenNames:
    objects = Objects(
        (NAMESPACE, "", "empty-team", ""),
        (NAMESPACE, "", "research", ""),
        (POD, "research", "train-0", "node-1"),
        (POD, "other-team", "eval-0", "node-2"),
        (POD, "other-team", "cpu", ""),
        (POD, "other-team", "5", ""),
        (POD_GROUP, "other-team", "eval", ""),
        (VCJOB, "other-team", "is", ""),
        (VCJOB, "research", "train", ""),
        (VCJOB, "other-team", "train", ""),
        (NODE, "", "node-1", ""),
        (NODE, "", "node-2", ""),
        (QUEUE, "", "gold", ""),
        (QUEUE, "", "silver", ""),
        (HYPER_NODE, "", "rack", ""),
        (VOLUME, "other-team", "volume-7", ""),
        (VOLUME, "research", "volume-8", ""),
    )
    return hidden_names(objects, "research", ("gold", "root"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train-0 waits for other-team/eval-0 to terminate", "train-0 waits for 1 of another namespace to terminate"),
        ("for other-team/a, other-team/b and 3 more to go", "for 5 of other namespaces to go"),
        ("queue silver is full, queue gold is not", "queue (hidden) is full, queue gold is not"),
        ("pipelined to node node-2, has node-1", "pipelined to node (hidden), has node-1"),
        ("eval-0 holds the claim", "(hidden) holds the claim"),
        ("job eval holds it", "job (hidden) holds it"),
        ("namespace empty-team has it", "namespace (hidden) has it"),
        ("insufficient cpu: requested 5, used 5", "insufficient cpu: requested 5, used 5"),
        ("queue gold is full", "queue gold is full"),
        ("HyperNode rack has room", "HyperNode (hidden) has room"),
        ("volume-7 is there, volume-8 is not", "(hidden) is there, volume-8 is not"),
        ("research/train-0 and train", "research/train-0 and train"),
        ("nvidia.com/gpu: asked 8, most free on node-2", "nvidia.com/gpu: asked 8, most free on (hidden)"),
    ],
)
def test_counts_take_the_place_of_names(hidden: HiddenNames, text: str, shown: str) -> None:
    assert hidden.mask(text) == shown


def test_every_part_of_an_explanation_is_without_names_of_others(hidden: HiddenNames) -> None:
    found = Explanation(
        "job",
        "research",
        "train",
        Outlook.WAITS,
        "it waits for other-team/eval-0",
        queue="gold",
        queue_position=QueuePosition("gold", 3, 4, ("other-team/eval", "other-team/is")),
        gates=[Gate(GateKind.QUOTA, "queue silver has it", "capacity", (Shortage("cpu", 2, 3, 4, "Queue", "silver"),))],
        nodes=[RefusingNodes(("node-2",), ("Insufficient cpu",))],
        ranking=Ranking("research/train-0", 1, ()),
        changes=[Change(("queue",), "let other-team/eval go")],
        searched=True,
    )

    shown = for_tenant(found, hidden)

    assert not any(name in repr(shown) for name in ("other-team", "eval", "silver", "node-2"))
    assert shown.queue_position == QueuePosition("gold", 3, 4, ())
    assert shown.gates[0].shortages == (Shortage("cpu", 2, 3, 4, "Queue", ""),)
    assert (shown.nodes, shown.ranking, shown.changes, shown.searched) == ([], None, [], False)


def test_names_of_the_tenant_and_amounts_of_the_own_queue_stay(hidden: HiddenNames) -> None:
    shortage = Shortage("cpu", 2, 3, 4, "Queue", "gold")
    gate = Gate(GateKind.QUOTA, "queue gold: train-0 asks for 2", "capacity", (shortage,))
    found = Explanation("pod", "research", "train-0", Outlook.PLACED, "it has node node-1", gates=[gate])

    shown = for_tenant(found, hidden)

    assert (shown.state, shown.gates) == (found.state, [gate])
