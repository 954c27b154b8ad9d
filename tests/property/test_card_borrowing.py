"""Borrowing of card quotas in random histories: gangs and single Pods arrive and end, Pods terminate slowly, Pods
accept one of two cards, quotas and limits change, and evicted Pods are created again.

After each session, a naive model counts Pods: borrowed cards were idle, limits are kept, gangs are whole. When no jobs
arrive any more, queues have their quotas back, and evictions end.
"""

import json
from collections import Counter
from random import Random

import pytest

from scheduler.api.kinds import POD, QUEUE
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT, CARD_NAME, CARD_QUOTA, GROUP_NAME
from tests.builders import Raw, configuration
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, card_group, card_pod, gpu_node, quota_queue
from tests.unit.plugins.capacity_card.histories import History

CONFIGURATION = configuration(
    ["priority"],
    ["gang", "capacity-card"],
    actions="enqueue, allocate, reclaim, gangreclaim, backfill",
    arguments={"capacity-card": {"cardBorrowing": True}},
)
CARDS = (H200, H800)
WRITTEN = (H200, H200, H800, f"{H200}|{H800}", f"{H800}|{H200}")
QUEUES = ("a", "b", "c")
Key = tuple[str, str]
"""A queue and a card."""


class Model:
    """The cards that queues hold and wait for, counted for each Pod."""

    def __init__(self, objects: list[Raw]) -> None:
        groups = {o["metadata"]["name"]: o["spec"]["queue"] for o in objects if o["kind"] == "PodGroup"}
        products = {o["metadata"]["name"]: o["metadata"]["labels"][f"{GPU}.product"] for o in objects if _is_node(o)}
        self.cards: Counter[str] = Counter()
        for raw in filter(_is_node, objects):
            self.cards[products[raw["metadata"]["name"]]] += int(raw["status"]["allocatable"][GPU])
        queues = {o["metadata"]["name"]: o["metadata"].get("annotations", {}) for o in objects if o["kind"] == "Queue"}
        self.quota = _counts(queues, CARD_QUOTA)
        self.borrowing = _counts(queues, CARD_BORROWING_LIMIT)
        self.lending = _counts(queues, CARD_LENDING_LIMIT)
        self.held: Counter[Key] = Counter()
        self.staying: Counter[Key] = Counter()
        """The Pods on nodes that are not terminating."""
        self.wanted: Counter[Key] = Counter()
        """The Pods without a node. A Pod waits for each card that it accepts."""
        for raw in objects:
            if raw["kind"] != "Pod" or raw["status"].get("phase") == "Succeeded":
                continue
            annotations, node = raw["metadata"]["annotations"], raw["spec"].get("nodeName")
            queue, leaves = groups[annotations[GROUP_NAME]], "deletionTimestamp" in raw["metadata"]
            if node:
                self.held[queue, products[node]] += 1
                self.staying[queue, products[node]] += not leaves
            elif not leaves:
                self.wanted.update((queue, card) for card in annotations[CARD_NAME].split("|"))

    def claim(self, queue: str, card: str) -> int:
        """The cards that a queue uses, and the part of its quota that it does not lend."""
        key = (queue, card)
        quota = self.quota.get(key, 0)
        kept = quota - self.lending.get(key, quota)
        return max(self.held[key], min(quota, max(self.staying[key] + self.wanted[key], kept)))

    def stock(self, card: str) -> int:
        return min(self.cards[card], sum(self.quota.get((queue, card), 0) for queue in QUEUES))

    def total(self, card: str) -> int:
        return sum(self.held[queue, card] for queue in QUEUES)

    def over(self, queue: str, card: str) -> int:
        return max(self.held[queue, card] - self.quota.get((queue, card), 0), 0)


def _counts(annotations: dict[str, dict[str, str]], key: str) -> dict[Key, int]:
    """``annotations``: the annotations by queue."""
    listed = {name: json.loads(annotations[name].get(key, "{}")) for name in QUEUES}
    return {(name, card): int(number) for name, counts in listed.items() for card, number in counts.items()}


def _is_node(raw: Raw) -> bool:
    return bool(raw["kind"] == "Node")


def _placed(raw: Raw) -> bool:
    """A Pod on a node; one that has succeeded counts for the minimum of its gang."""
    return bool(raw["kind"] == "Pod" and raw["spec"].get("nodeName"))


class Borrowing(History):
    """A history with a job controller, which creates evicted Pods again."""

    def __init__(self, random: Random) -> None:
        self.random = random
        nodes = [gpu_node(f"n{i}", random.choice(CARDS), random.randint(1, 4)) for i in range(random.randint(2, 5))]
        super().__init__(nodes, [quota_queue(name, {}) for name in QUEUES])
        for name in QUEUES:
            self.change_quota(name)
        self.jobs: dict[str, tuple[int, str]] = {}
        """Maps each PodGroup to its minimum, and to the cards that its Pods accept."""
        self.singles: dict[str, str] = {}
        """Maps each PodGroup of one Pod that accepts one card to this card."""
        self.terminating: dict[str, int] = {}
        """Maps each Pod to the number of sessions until it is deleted."""
        self.number = 0

    def change_quota(self, queue: str) -> None:
        counts = {card: self.random.randint(0, 4) for card in CARDS if self.random.random() < 0.8}
        annotations: dict[str, str | None] = {CARD_QUOTA: json.dumps(counts)}
        for key in (CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT):
            limits = {card: self.random.randint(0, 3) for card in counts if self.random.random() < 0.2}
            annotations[key] = json.dumps(limits)
        self._patch(QUEUE, queue, {"metadata": {"annotations": annotations}})

    def add_job(self) -> None:
        name = f"j{len(self.jobs)}"
        size = self.random.choice((1, 1, 1, 2, 3))
        minimum = self.random.choice((1, size))
        self.jobs[name] = minimum, self.random.choice(WRITTEN)
        if size == 1 and "|" not in self.jobs[name][1]:
            self.singles[name] = self.jobs[name][1]
        self.create(card_group(name, self.random.choice(QUEUES), minimum, {self.jobs[name][1]: minimum}))
        for _ in range(size):
            self.add_pod(name)

    def add_pod(self, job: str) -> None:
        self.number += 1
        self.create(card_pod(f"{job}-{self.number}", job, self.jobs[job][1]))

    def step(self) -> int:
        """Runs a session and the kubelet, and checks the session. Returns the number of evictions."""
        before = Model(self.cluster.objects())
        self.cycle(CONFIGURATION)
        for bind in self.decisions.binds:
            self._patch(POD, bind.task.name, {"status": {"phase": "Running"}})
        after = Model(self.cluster.objects())
        self.check(before, after)
        for eviction in self.decisions.evictions:
            self.terminating.setdefault(eviction.task.name, self.random.randint(0, 2))
        for pod, left in list(self.terminating.items()):
            self.terminating[pod] = left - 1
            if left <= 0:
                del self.terminating[pod]
                self.gone(pod)
        for eviction in self.decisions.evictions:
            self.add_pod(eviction.task.name.partition("-")[0])
        return len(self.decisions.evictions)

    def check(self, before: Model, after: Model) -> None:
        bound = {
            (queue, card) for queue in QUEUES for card in CARDS if after.held[queue, card] > before.held[queue, card]
        }
        for card in CARDS:
            assert after.total(card) <= after.cards[card]
            if after.total(card) > sum(after.quota.get((queue, card), 0) for queue in QUEUES):
                # A quota was lowered below what is used: only queues within their own quota get more.
                assert all(not after.over(queue, card) for queue, its in bound if its == card)
        for queue, card in bound:
            if over := after.over(queue, card):
                assert card in {its for name, its in after.quota if name == queue}
                assert over <= after.borrowing.get((queue, card), over)
                others = sum(after.claim(other, card) for other in QUEUES if other != queue)
                assert others + after.held[queue, card] <= after.stock(card), (queue, card)
        members = Counter(name.partition("-")[0] for name in (bind.task.name for bind in self.decisions.binds))
        placed = Counter(raw["metadata"]["name"].partition("-")[0] for raw in self.cluster.objects() if _placed(raw))
        assert all(placed[job] >= self.jobs[job][0] for job in members)

    def happen(self) -> None:
        """A random change."""
        what = self.random.random()
        on_nodes = [raw["metadata"]["name"] for raw in self.on_nodes()]
        staying = [name for name in on_nodes if name not in self.terminating]
        if what < 0.6:
            self.add_job()
        elif what < 0.75:
            self.change_quota(self.random.choice(QUEUES))
        elif staying and what < 0.9:
            self.terminate(pod := self.random.choice(staying))
            self.terminating[pod] = self.random.randint(1, 3)
        elif staying:
            self.finish(self.random.choice(staying))


@pytest.mark.parametrize("seed", range(40))
def test_only_idle_quota_is_lent_and_it_comes_back_without_endless_evictions(seed: int) -> None:
    history = Borrowing(Random(seed))
    for _ in range(15):
        for _ in range(history.random.randint(0, 3)):
            history.happen()
        history.step()
    quiet = 0
    for _ in range(80):
        quiet = 0 if history.step() or history.terminating else quiet + 1
        if quiet == 6:
            break
    assert quiet == 6, "Pods are evicted for ever"
    settled = Model(history.cluster.objects())
    for raw in history.cluster.objects():
        job = raw["metadata"]["name"].partition("-")[0]
        if raw["kind"] != "Pod" or raw["spec"].get("nodeName") or job not in history.singles:
            continue
        if history.phase(job) not in ("Inqueue", "Running"):
            continue  # its queue has reserved the quota for another job
        queue, card = history.get("PodGroup", job)["spec"]["queue"], history.singles[job]
        if settled.held[queue, card] < settled.quota.get((queue, card), 0):
            assert not any(settled.over(other, card) for other in QUEUES), f"{queue} has not got {card} back for {job}"
