"""No queue holds more than its quota of any kind of card, also if one node has cards of many kinds."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import ASCEND_910, BINDING_RECORD, CARD_NAME, NPU_CORE
from tests.builders import Raw, group, pod
from tests.unit.plugins.ascend.chips import npu_pod
from tests.unit.plugins.ascend.sharing.shares import POLICY, quota, shared_node
from tests.unit.plugins.ascend.vnpu.parts import core_pod
from tests.unit.plugins.capacity_card.cards import GPU, labels, quota_queue
from tests.unit.plugins.capacity_card.histories import History
from tests.unit.plugins.capacity_card.parts import A100, CONFIGURATION, MIND_CLUSTER, labeled
from tests.unit.plugins.deviceshare.devices import limited, slice_of, vgpu_node

MIG, MPS, SLICE, STATIC = "nvidia.com/mig-1g.10gb", f"{GPU}.shared", "example.com/slice-2", f"{ASCEND_910}-5c.1cpu.16g"
ATLAS = {"ring-controller.atlas": "ascend-910b"}
Maker = Callable[[str, str], Raw]


def plain(resource: str) -> Maker:
    return lambda name, job: pod(name, f"1c+1Gi+{resource}=1", job)


KINDS: dict[str, Maker] = {
    A100: plain(GPU),
    f"{A100}/mps-96g*1/2": plain(MPS),
    f"{A100}/mig-1g.10gb-mixed": plain(MIG),
    f"{A100}/vgpu-1g": lambda name, job: limited(name, slice_of(1, 1024), group=job),
    f"{A100}/vgpu-2g-10c": lambda name, job: limited(name, slice_of(1, 2048, 10), group=job),
    "PPU/slice-2": plain(SLICE),
    "Ascend910B3/vnpu-vir05_1c_16g": lambda name, job: core_pod(name, 5, job, labels=ATLAS),
    "Ascend910B3/vnpu-vir10_3c_32g": lambda name, job: core_pod(name, 10, job, labels=ATLAS),
    "Ascend910B3/share-25c-1g": lambda name, job: npu_pod(name, 25, job, labels=quota(25)),
    "Ascend910B3/share-50c-2g": lambda name, job: npu_pod(name, 50, job, labels=quota(50, 2048)),
}
"""Card -> a Pod that requests one."""
CARDS = sorted(KINDS)
QUOTAS = {
    "p": {card: 1 + i % 2 for i, card in enumerate(CARDS)},
    "q": {card: 2 - i % 2 for i, card in enumerate(CARDS)},
}


def nodes() -> list[Raw]:
    """A node with GPUs that are whole, shared and divided, and a node with NPUs that are shared and divided."""
    of_gpus = labeled(vgpu_node("a", memory=8192), labels(A100) | {f"{GPU}.replicas": "2", "example.com/model": "PPU"})
    of_gpus["status"]["allocatable"] |= {GPU: "4", MPS: "4", MIG: "4", SLICE: "4"}
    of_npus, lists = shared_node("b", 4)
    of_npus["status"]["allocatable"] |= {NPU_CORE: "80", STATIC: "2"}
    return [of_gpus, labeled(of_npus, MIND_CLUSTER), lists]


NUMBERS = st.integers(0, 9)
OPERATIONS = st.one_of(
    st.tuples(
        st.just("create"),
        st.sampled_from("pq"),
        st.lists(st.sampled_from(CARDS), min_size=1, max_size=3),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(["terminate", "gone", "finish", "strip"]), NUMBERS),
    st.tuples(st.just("move"), NUMBERS, st.sampled_from("pq")),
    st.tuples(st.just("relabel"), NUMBERS),
    st.tuples(st.just("restart")),
)


class Actor:
    """Carries out operations that are possible."""

    def __init__(self) -> None:
        queues = [quota_queue(name, quotas) for name, quotas in QUOTAS.items()]
        self.history = History(nodes(), queues)
        self.card_of: dict[str, str] = {}
        self._jobs = 0

    def do(self, operation: tuple[Any, ...]) -> None:
        history = self.history
        match operation:
            case ("create", queue, cards, named):
                self._jobs += 1
                self._create(f"j{self._jobs}", queue, cards, named)
            case ("terminate", number) if name := self._pod(number):
                history.terminate(name)
            case ("gone", number) if name := self._pod(number, terminating=True):
                history.gone(name)
            case ("finish", number) if name := self._pod(number):
                history.finish(name)
            case ("strip", number) if name := self._pod(number):
                history.annotate(name, BINDING_RECORD, None)
            case ("move", number, queue):
                groups = [o["metadata"]["name"] for o in history.cluster.objects() if o["kind"] == "PodGroup"]
                if groups:
                    history.move(groups[number % len(groups)], queue)
            case ("relabel", number):  # a share is given by labels
                groups = [o["metadata"]["name"] for o in history.cluster.objects() if o["kind"] == "PodGroup"]
                if groups:
                    changed = {"metadata": {"labels": quota(100, 4096)}}
                    history.cluster.server.patch(POD_GROUP, "default", groups[number % len(groups)], changed)
            case ("restart",):
                history.restart()

    def _create(self, name: str, queue: str, cards: list[str], named: bool) -> None:
        shares = "/share-" in cards[0]
        if shares:  # one share for all Pods of a job
            cards = cards[:1] * len(cards)
        else:
            cards = [card for card in cards if "/share-" not in card]
        annotations = POLICY if shares else {}
        made = [group(name, queue, 1, phase="Inqueue", annotations=annotations)]
        for number, card in enumerate(cards):
            raw = KINDS[card](f"{name}-{number}", name)
            if named:
                raw["metadata"]["annotations"][CARD_NAME] = card
            self.card_of[f"{name}-{number}"] = card
            made.append(raw)
        self.history.create(made)

    def _pod(self, number: int, *, terminating: bool = False) -> str:
        metas = [raw["metadata"] for raw in self.history.on_nodes()]
        names = sorted(meta["name"] for meta in metas if not terminating or meta.get("deletionTimestamp"))
        return names[number % len(names)] if names else ""

    def held(self) -> Counter[tuple[str, str]]:
        metas = [raw["metadata"] for raw in self.history.on_nodes()]
        return Counter((self.history.admitted[meta["uid"]][0], self.card_of[meta["name"]]) for meta in metas)


@given(st.lists(OPERATIONS, max_size=14))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_history_exceeds_the_quota_of_a_kind_of_card(operations: list[tuple[Any, ...]]) -> None:
    actor = Actor()
    for operation in (("restart",), *operations):
        actor.do(operation)
        actor.history.cycle(CONFIGURATION)
        for (queue, card), number in actor.held().items():
            assert number <= QUOTAS[queue][card], f"queue {queue} holds {number} of {card}"


def test_the_histories_place_every_kind() -> None:
    actor = Actor()
    for card in CARDS:
        actor.do(("create", "p", [card] * 3, False))
    for _ in range(6):
        actor.history.cycle(CONFIGURATION)
    assert actor.held() == {("p", card): number for card, number in QUOTAS["p"].items()}
