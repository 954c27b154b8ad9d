"""The Pods of a queue never hold more than its quota, whatever happens to Pods, PodGroups, nodes and the scheduler."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import NODE
from scheduler.api.names import BINDING_RECORD, CARD_NAME, CPU, GROUP_NAME
from scheduler.cluster.memory.server import key_of
from tests.builders import Raw, configuration
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, card_group, card_pod, gpu_node, quota_queue
from tests.unit.plugins.capacity_card.histories import History

CONFIGURATION = configuration(["priority", "gang"], ["capacity-card"], actions="enqueue, allocate, preempt, backfill")
QUOTAS = {"p": {H200: 2, H800: 1}, "q": {H200: 1, H800: 2}}
CPU_LIMIT = 3
NODES = [gpu_node("a", H200, 2), gpu_node("b", H200, 2), gpu_node("c", H800, 3)]
IMPORTANT: Raw = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 9,
}
QUEUES = st.sampled_from(sorted(QUOTAS))
CARDS = st.sampled_from([H200, H800, f"{H200}|{H800}", None])
NUMBERS = st.integers(0, 9)
HONEST = st.one_of(
    st.tuples(st.just("create"), QUEUES, CARDS, st.integers(1, 3), st.booleans(), st.booleans()),
    st.tuples(st.sampled_from(["terminate", "gone", "finish"]), NUMBERS),
    st.tuples(st.just("delete group"), NUMBERS),
    st.tuples(st.just("move group"), NUMBERS, QUEUES),
    st.tuples(st.sampled_from(["unplug", "remove node"]), st.sampled_from(["a", "c"])),
    st.just(("restart",)),
    st.just(("cycle",)),
)
HOSTILE = st.one_of(
    HONEST,
    st.tuples(st.just("join"), NUMBERS, NUMBERS),
    st.tuples(st.just("name"), NUMBERS, CARDS),
    st.tuples(st.just("strip"), NUMBERS),
    st.tuples(st.just("unlabel"), st.sampled_from(["a", "c"])),
)


class Actor:
    """Carries out operations that are possible."""

    def __init__(self) -> None:
        queues = [quota_queue(name, quota, f"{CPU_LIMIT}c+64Gi") for name, quota in QUOTAS.items()]
        waiting: list[Raw] = []
        for queue in QUOTAS:  # whatever becomes free is taken at once
            for card in (H200, H800):
                name = f"{queue}-{card.lower()}"
                waiting.append(card_group(name, queue, 1, phase="Inqueue"))
                waiting += [card_pod(f"{name}-{i}", name, card) for i in range(5)]
        self.history = History(NODES, queues, IMPORTANT, waiting)
        self._groups = 0

    def do(self, operation: tuple[Any, ...]) -> None:
        history = self.history
        match operation:
            case ("create", queue, card, number, gang, important):
                self._groups += 1
                name = f"g{self._groups}"
                made = card_group(
                    name,
                    queue,
                    number if gang else 1,
                    phase="Inqueue",
                    priority_class="high" if important else "",
                )
                history.create(made, [card_pod(f"{name}-{i}", name, card) for i in range(number)])
            case ("terminate", number) if pod := self._pod(number):
                history.terminate(pod)
            case ("gone", number) if pod := self._pod(number, terminating=True):
                history.gone(pod)
            case ("finish", number) if pod := self._pod(number):
                history.finish(pod)
            case ("delete group", number) if group := self._group(number):
                history.delete_group(group)
            case ("move group", number, queue) if group := self._group(number):
                history.move(group, queue)
            case ("join", number, other) if (pod := self._pod(number)) and (group := self._group(other)):
                history.annotate(pod, GROUP_NAME, group)
            case ("name", number, card) if pod := self._pod(number):
                history.annotate(pod, CARD_NAME, card)
            case ("strip", number) if pod := self._pod(number):
                history.annotate(pod, BINDING_RECORD, None)
            case ("unlabel", node) if self._has(node):
                for key in ("product", "count", "memory"):
                    history.label(node, f"{GPU}.{key}", None)
            case ("unplug", node) if self._has(node):
                history.cluster.server.patch(NODE, "", node, {"status": {"allocatable": {GPU: None}}})
            case ("remove node", node) if self._has(node):
                history.cluster.server.remove(key_of(NODE, "", node))
            case ("restart",):
                history.restart()

    def _has(self, node: str) -> bool:
        return any(o["kind"] == "Node" and o["metadata"]["name"] == node for o in self.history.cluster.objects())

    def _pod(self, number: int, *, terminating: bool = False) -> str:
        """Returns one of the Pods that hold nodes; "" if there is none."""
        pods = [p["metadata"] for p in self.history.on_nodes()]
        names = sorted(meta["name"] for meta in pods if not terminating or meta.get("deletionTimestamp"))
        return names[number % len(names)] if names else ""

    def _group(self, number: int) -> str:
        names = [o["metadata"]["name"] for o in self.history.cluster.objects() if o["kind"] == "PodGroup"]
        return names[number % len(names)] if names else ""


def no_quota_is_exceeded(operations: list[tuple[Any, ...]]) -> None:
    actor = Actor()
    for operation in (("cycle",), *operations):
        actor.do(operation)
        actor.history.cycle(CONFIGURATION)
        for (queue, what), held in actor.history.held().items():
            quota = CPU_LIMIT if what == CPU else QUOTAS[queue].get(what, 0)
            assert held <= quota, f"queue {queue} holds {held} of {what}, its quota is {quota}"


@given(st.lists(HONEST, max_size=14))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_history_without_forged_labels_exceeds_a_quota(operations: list[tuple[Any, ...]]) -> None:
    no_quota_is_exceeded(operations)


@given(st.lists(HOSTILE, max_size=14))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_rewriting_of_objects_exceeds_a_quota(operations: list[tuple[Any, ...]]) -> None:
    no_quota_is_exceeded(operations)
