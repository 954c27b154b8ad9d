"""What the scheduler decides, and what the status of queues, metrics and the command line say of cards, is what a naive
model of the design's formulas says, in random histories: Pods come, end and go, jobs grow, nodes shrink, quotas
change."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from scheduler.api.kinds import NODE, QUEUE
from scheduler.api.names import CARD_NAME, CARD_QUOTA, GROUP_NAME
from scheduler.api.scheduling import Queue
from scheduler.cli.queue.show import written_cards
from scheduler.observability.metrics import Metrics
from tests.builders import Raw, configuration, node
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, card_group, card_pod, labels, quota_queue
from tests.unit.plugins.capacity_card.histories import History

CONFIGURATION = configuration(["priority", "gang"], ["capacity-card"], actions="enqueue, allocate, preempt, backfill")
MIG_RESOURCE, SHARED = "nvidia.com/mig-1g.18gb", f"{GPU}.shared"
MIG, MPS = f"{H200}/mig-1g.18gb-mixed", f"{H800}/mps-80g*1/2"
RESOURCES = {H200: GPU, H800: GPU, MIG: MIG_RESOURCE, MPS: SHARED, f"{H200}|{H800}": GPU, f"{H800}|{H200}": GPU}
"""Annotation of a Pod -> the resource that it requests."""
QUEUES = ("p", "q")
FIGURES = {"quota": "capacity", "used": "allocated", "inqueue": "inqueue", "requested": "request"}
"""Field of the status -> word in the name of the metric."""


@dataclass
class Job:
    """A PodGroup with its Pods, which are equal."""

    queue: str
    written: str
    """The annotation of its Pods."""
    amount: int
    """Cards of a Pod."""
    minimum: int
    pods: int = 0
    """Those that are not terminating."""
    placed: int = 0
    """Those of them that are on nodes."""
    waits_for_queue: bool = False
    is_complete: bool = False
    """As many Pods exist as it needs at least."""


class Model:
    """The figures of queues, counted from the objects as the design defines them."""

    def __init__(self, objects: list[Raw], phases: Mapping[str, str]) -> None:
        """``phases``: PodGroup -> the phase for which the last session has reserved cards."""
        self._nodes = {o["metadata"]["name"]: o["metadata"]["labels"] for o in objects if o["kind"] == "Node"}
        groups = {o["metadata"]["name"]: o for o in objects if o["kind"] == "PodGroup"}
        self.quota: dict[str, dict[str, int]] = {
            o["metadata"]["name"]: json.loads(o["metadata"].get("annotations", {}).get(CARD_QUOTA, "{}"))
            for o in objects
            if o["kind"] == "Queue"
        }
        self.used: Counter[tuple[str, str]] = Counter()
        self.requested: Counter[tuple[str, str]] = Counter()
        self.reserved: Counter[tuple[str, str]] = Counter()
        """Queue and annotation of its Pods -> cards that admitted jobs still need."""
        self.elastic: Counter[tuple[str, str]] = Counter()
        """The same -> cards that jobs hold beyond their minimum."""
        self.free: Counter[tuple[str, str]] = Counter()
        """Node and resource -> cards that no Pod holds."""
        for raw in objects:
            if raw["kind"] == "Node":
                amounts = raw["status"]["allocatable"]
                self.free.update({(raw["metadata"]["name"], r): int(amounts.get(r, 0)) for r in {*RESOURCES.values()}})
        self.jobs: dict[str, Job] = {}
        existing: Counter[str] = Counter()
        staying: Counter[str] = Counter()
        held: Counter[str] = Counter()
        for raw in objects:
            if raw["kind"] != "Pod" or raw["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            meta = raw["metadata"]
            name = meta["annotations"][GROUP_NAME]
            queue, written = groups[name]["spec"]["queue"], meta["annotations"][CARD_NAME]
            resource = RESOURCES[written]
            amount = int(raw["spec"]["containers"][0]["resources"]["requests"][resource])
            existing[name] += 1
            staying[name] += not meta.get("deletionTimestamp")
            if raw["spec"].get("nodeName"):
                card = self._card_on(raw["spec"]["nodeName"], resource)
                self.free[raw["spec"]["nodeName"], resource] -= amount
                self.used[queue, card] += amount
                self.requested[queue, card] += amount
                if not meta.get("deletionTimestamp"):
                    held[name] += amount
            else:
                names = written.split("|")
                card = next((n for n in names if self.quota[queue].get(n)), names[0])
                self.requested[queue, card] += amount
            self.jobs[name] = Job(queue, written, amount, groups[name]["spec"]["minMember"])
        for name, job in self.jobs.items():
            job.pods = staying[name]
            job.placed = held[name] // job.amount
            job.waits_for_queue = phases[name] == "Pending"
            job.is_complete = existing[name] >= job.minimum
            if phases[name] == "Inqueue" and job.is_complete:
                missing = max(min(job.minimum, staying[name]) - job.placed, 0)
                self.reserved[job.queue, job.written] += missing * job.amount
            self.elastic[job.queue, job.written] += max(job.placed - job.minimum, 0) * job.amount

    def inqueue(self, queue: str) -> int:
        """The cards of all models that admitted jobs of a queue still need."""
        return sum(number for (of, _), number in self.reserved.items() if of == queue)

    def places(self, job: "Job") -> int:
        """How many more Pods of a job the quota and the nodes have room for."""
        total, resource = 0, RESOURCES[job.written]
        for card in job.written.split("|"):
            left = self.quota[job.queue].get(card, 0) - self.used[job.queue, card]
            on_nodes = sum(
                max(free, 0) // job.amount
                for (name, of), free in self.free.items()
                if of == resource and self._card_on(name, of) == card
            )
            total += min(max(left, 0) // job.amount, on_nodes)
        return total

    def admission_room(self, job: "Job") -> int:
        """What can still be admitted of the only card that a job accepts."""
        key = job.queue, job.written
        return self.quota[job.queue].get(job.written, 0) - self.used[key] - self.reserved[key] + self.elastic[key]

    def _card_on(self, name: str, resource: str) -> str:
        product = self._nodes[name][f"{GPU}.product"]
        parts = {GPU: "", MIG_RESOURCE: "/mig-1g.18gb-mixed", SHARED: "/mps-80g*1/2"}
        return f"{product}{parts[resource]}"


class Actor:
    """Makes random changes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        nodes = [
            node("a", f"64c+256Gi+{GPU}=3+{MIG_RESOURCE}=3", labels(H200)),
            node("b", f"64c+256Gi+{GPU}=2+{SHARED}=4", labels(H800, memory=81559) | {f"{GPU}.replicas": "2"}),
            node("c", f"64c+256Gi+{GPU}=3", labels(H800, memory=81559)),
        ]
        self.history = History(nodes, [quota_queue(name, self._quota()) for name in QUEUES])
        self._groups: list[tuple[str, str, int]] = []
        """Name, annotation of its Pods, number of Pods created."""

    def _quota(self) -> dict[str, int]:
        return {card: self._random.randint(0, 4) for card in (H200, H800, MIG, MPS) if self._random.random() < 0.8}

    def change(self) -> None:
        random, history = self._random, self.history
        match random.choice(["create", "create", "grow", "terminate", "gone", "finish", "shrink", "quota", "restart"]):
            case "create":
                name, card, number = f"g{len(self._groups)}", random.choice(list(RESOURCES)), random.randint(1, 3)
                history.create(card_group(name, random.choice(QUEUES), random.randint(1, number)))
                self._groups.append((name, card, 0))
                self._add_pods(len(self._groups) - 1, number)
            case "grow" if self._groups:
                self._add_pods(random.randrange(len(self._groups)), 1)
            case "terminate" if pods := history.on_nodes():
                history.terminate(random.choice(pods)["metadata"]["name"])
            case "gone" if pods := [p for p in history.on_nodes() if p["metadata"].get("deletionTimestamp")]:
                history.gone(random.choice(pods)["metadata"]["name"])
            case "finish" if pods := history.on_nodes():
                history.finish(random.choice(pods)["metadata"]["name"])
            case "shrink":
                allocatable = {"status": {"allocatable": {GPU: str(random.randint(0, 3))}}}
                history.cluster.server.patch(NODE, "", random.choice("abc"), allocatable)
            case "quota":
                annotations = {CARD_QUOTA: json.dumps(self._quota())}
                history.cluster.server.patch(
                    QUEUE, "", random.choice(QUEUES), {"metadata": {"annotations": annotations}}
                )
            case "restart":
                history.restart()

    def _add_pods(self, at: int, number: int) -> None:
        name, card, existing = self._groups[at]
        asks = f"1c+1Gi+{RESOURCES[card]}={1 + at % 2}"
        self.history.create([card_pod(f"{name}-{existing + i}", name, card, asks) for i in range(number)])
        self._groups[at] = name, card, existing + number


Samples = dict[tuple[str, str, str], float]
"""Name of a metric, queue, resource -> value."""


def samples_of(history: History, metrics: Metrics) -> Samples:
    """The metrics of queues after a session."""
    assert history.outcome is not None
    session = history.outcome.session
    usage, figures = session.usage_by_queue(), session.figures()
    metrics.session.update(session.jobs, session.queues, session.dimensions, {}, figures, usage)
    metrics.shares.update(figures, session.queues, session.dimensions, usage)
    samples = (s for family in (*metrics.session.collect(), *metrics.shares.collect()) for s in family.samples)
    return {(s.name, s.labels["queue_name"], s.labels["resource"]): s.value for s in samples if "resource" in s.labels}


def reported(history: History, samples: Samples, queue: str) -> dict[str, dict[str, int]]:
    """``status.cards`` of a queue, which metrics and the command line repeat."""
    raw = history.get("Queue", queue)
    cards: dict[str, dict[str, str]] = raw["status"].get("cards") or {}
    text = ",".join(f"{card}={its['used']}/{its['quota']}" for card, its in cards.items()) or "<none>"
    assert written_cards(msgspec.convert(raw, Queue, strict=False).status.cards) == text
    for card, its in cards.items():
        for field, word in FIGURES.items():
            name = f"volcano_queue_{word}_scalar_resources"
            assert samples[name, queue, card] == 1000 * int(its[field]), (card, field)
    return {card: {field: int(amount) for field, amount in its.items()} for card, its in cards.items()}


def refused_rightly(model: Model) -> None:
    """Every job that waits could not be admitted, and every Pod that waits could not be placed, after all that the
    session decided. While Pods terminate, others may wait for their cards; then this does not hold."""
    for name, job in model.jobs.items():
        if job.waits_for_queue:
            if job.is_complete and "|" not in job.written:
                assert job.minimum * job.amount > model.admission_room(job), name
        elif job.pods > job.placed and job.pods >= job.minimum:
            needed = max(job.minimum - job.placed, 1)
            assert model.places(job) < needed, name


@pytest.mark.parametrize("seed", range(200))
def test_reports_of_cards_equal_the_naive_model_at_every_step(seed: int) -> None:
    random = Random(seed)
    actor = Actor(random)
    history, metrics = actor.history, Metrics()
    before: dict[tuple[str, str], int] = {}
    for _ in range(12):
        actor.change()
        history.cycle(CONFIGURATION)
        assert history.outcome is not None
        phases = {job.name: job.phase for job in history.outcome.session.jobs.values()}
        model = Model(history.cluster.objects(), phases)
        samples = samples_of(history, metrics)
        for queue in QUEUES:
            cards = reported(history, samples, queue)
            for card in {*cards, *(card for of, card in model.requested if of == queue), *model.quota[queue]}:
                its = cards.get(card, dict.fromkeys(FIGURES, 0))
                expected = {
                    "quota": model.quota[queue].get(card, 0),
                    "used": model.used[queue, card],
                    "requested": model.requested[queue, card],
                }
                assert {name: its[name] for name in expected} == expected, (queue, card)
            assert sum(its["inqueue"] for its in cards.values()) == model.inqueue(queue), queue
            alternatives = any(
                "|" in written and number for (of, written), number in model.reserved.items() if of == queue
            )
            for card, its in cards.items() if not alternatives else ():
                assert its["inqueue"] == model.reserved[queue, card], (queue, card)
            for card, its in cards.items():
                assert its["used"] <= max(its["quota"], before.get((queue, card), 0)), (queue, card)
        before = dict(model.used)
        if not any(raw["metadata"].get("deletionTimestamp") for raw in history.on_nodes()):
            refused_rightly(model)
