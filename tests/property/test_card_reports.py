"""What the scheduler decides, and what the status of queues, metrics and the command line say of cards, is what a naive
model of the design's formulas says, in random histories: jobs announce cards before they have Pods, Pods come, end and
go, jobs grow, nodes shrink, quotas change."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.api.kinds import NODE, POD_GROUP, QUEUE, Kind
from scheduler.api.messages import card_summary
from scheduler.api.names import CARD_NAME, CARD_QUOTA, CARD_REQUEST, GROUP_NAME, OFFLINE, ONLINE, WORKLOAD
from scheduler.api.queue import QUEUE_PHASES
from scheduler.api.resource import format_amount
from scheduler.cli.output import WIDE, RowTable
from scheduler.cli.queue.show import amount_lines, amounts_of, queue_view
from scheduler.explain.queues import queue_totals
from scheduler.observability.card_users import CardUserFigures
from scheduler.observability.metrics import Metrics
from tests.builders import Raw, configuration, node
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, card_group, card_pod, labels, quota_queue
from tests.unit.plugins.capacity_card.histories import History

CONFIGURATION = configuration(["priority", "gang"], ["capacity-card"], actions="enqueue, allocate, preempt, backfill")
MIG_RESOURCE, SHARED = "nvidia.com/mig-1g.18gb", f"{GPU}.shared"
MIG, MPS = f"{H200}/mig-1g.18gb-mixed", f"{H800}/mps-80g*1/2"
RESOURCES = {H200: GPU, H800: GPU, MIG: MIG_RESOURCE, MPS: SHARED, f"{H200}|{H800}": GPU, f"{H800}|{H200}": GPU}
"""Maps the annotation of a Pod to the resource that the Pod requests."""
QUEUES = ("p", "q")
FIGURES = {"quota": "capacity", "used": "allocated", "inqueue": "inqueue", "requested": "request"}
"""Maps a field of the status to the word in the name of the metric."""
WORKLOADS = (ONLINE, OFFLINE)
"""The fields of the status of a card in use with the part that online Pods hold, and that the others hold."""


@dataclass
class Job:
    """A PodGroup with its Pods, which are equal."""

    queue: str
    written: str
    """The annotation of its Pods."""
    amount: int
    """The cards of a Pod; 1 if there are no Pods."""
    minimum: int
    announced: int = 0
    """The cards that the PodGroup announces until its Pods exist."""
    pods: int = 0
    """The Pods that are not terminating."""
    placed: int = 0
    """The Pods that are on nodes and not terminating."""
    waits_for_queue: bool = False
    is_complete: bool = False
    """Whether at least as many Pods exist as the job needs to start."""

    @property
    def is_checked(self) -> bool:
        """Whether the job is admitted only if the quota has room for its minimum. Jobs that announce nothing are always
        admitted."""
        return self.announced > 0

    @property
    def needed(self) -> int:
        """The cards of its minimum."""
        return self.minimum * self.amount if self.is_complete else self.announced


class Model:
    """The figures of queues, counted from the objects as the design defines them."""

    def __init__(self, objects: list[Raw], phases: Mapping[str, str]) -> None:
        """``phases``: maps each PodGroup to the phase for which the last session has reserved cards."""
        self._nodes = {o["metadata"]["name"]: o["metadata"]["labels"] for o in objects if o["kind"] == "Node"}
        groups = {o["metadata"]["name"]: o for o in objects if o["kind"] == "PodGroup"}
        self.quota: dict[str, dict[str, int]] = {
            o["metadata"]["name"]: json.loads(o["metadata"].get("annotations", {}).get(CARD_QUOTA, "{}"))
            for o in objects
            if o["kind"] == "Queue"
        }
        self.used: Counter[tuple[str, str]] = Counter()
        self.online: Counter[tuple[str, str]] = Counter()
        """The part of ``used`` that Pods of online jobs hold."""
        self.terminating: Counter[tuple[str, str]] = Counter()
        """The part of ``used`` that terminating Pods hold."""
        self.requested: Counter[tuple[str, str]] = Counter()
        self.reserved: Counter[tuple[str, str]] = Counter()
        """Maps a queue and the annotation of its Pods to the cards that admitted jobs still need."""
        self.elastic: Counter[tuple[str, str]] = Counter()
        """Maps a queue and a card to the cards that jobs hold beyond their minimum; for jobs with a choice, to the
        largest possible number."""
        self.free: Counter[tuple[str, str]] = Counter()
        """Maps a node and a resource to the cards that no Pod holds."""
        for raw in objects:
            if raw["kind"] == "Node":
                amounts = raw["status"]["allocatable"]
                self.free.update({(raw["metadata"]["name"], r): int(amounts.get(r, 0)) for r in {*RESOURCES.values()}})
        self.totals: dict[str, Counter[str]] = {}
        """Maps a card to its amounts in the whole cluster."""
        for raw in objects:
            for resource in {*RESOURCES.values()} if raw["kind"] == "Node" else ():
                if resource not in raw["status"]["allocatable"]:
                    continue
                allocatable, capacity = (int(raw["status"][of][resource]) for of in ("allocatable", "capacity"))
                amounts = {"existing": max(capacity, allocatable), "allocatable": allocatable, "healthy": allocatable}
                self.totals.setdefault(self._card_on(raw["metadata"]["name"], resource), Counter()).update(amounts)
        for quota in self.quota.values():
            for card, number in quota.items():
                self.totals.setdefault(card, Counter())["granted"] += number
        self.jobs: dict[str, Job] = {}
        existing: Counter[str] = Counter()
        staying: Counter[str] = Counter()
        held: Counter[str] = Counter()
        held_of: Counter[tuple[str, str]] = Counter()
        """Maps a job and a card to the number that its Pods hold that are not terminating."""
        for raw in objects:
            if raw["kind"] != "Pod":
                continue
            meta = raw["metadata"]
            name = meta["annotations"][GROUP_NAME]
            existing[name] += 1
            if raw["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            queue, written = groups[name]["spec"]["queue"], meta["annotations"][CARD_NAME]
            resource = RESOURCES[written]
            amount = int(raw["spec"]["containers"][0]["resources"]["requests"][resource])
            staying[name] += not meta.get("deletionTimestamp")
            if raw["spec"].get("nodeName"):
                card = self._card_on(raw["spec"]["nodeName"], resource)
                self.free[raw["spec"]["nodeName"], resource] -= amount
                self.used[queue, card] += amount
                self.online[queue, card] += amount * (meta["labels"].get(WORKLOAD) == ONLINE)
                self.requested[queue, card] += amount
                if meta.get("deletionTimestamp"):
                    self.terminating[queue, card] += amount
                if not meta.get("deletionTimestamp"):
                    held[name] += amount
                    held_of[name, card] += amount
            else:
                names = written.split("|")
                card = next((n for n in names if self.quota[queue].get(n)), names[0])
                self.requested[queue, card] += amount
            self.jobs[name] = Job(queue, written, amount, groups[name]["spec"]["minMember"])
        for name, raw in groups.items():
            request = json.loads((raw["metadata"].get("annotations") or {}).get(CARD_REQUEST, "{}"))
            for written, number in request.items():
                if name not in self.jobs:
                    self.jobs[name] = Job(raw["spec"]["queue"], written, 1, raw["spec"]["minMember"])
                self.jobs[name].announced = number
        for name, job in self.jobs.items():
            job.pods = staying[name]
            job.placed = held[name] // job.amount
            job.waits_for_queue = phases[name] == "Pending"
            job.is_complete = existing[name] >= job.minimum
            if phases[name] == "Inqueue":
                missing = min(job.minimum, staying[name]) * job.amount if job.is_complete else job.announced
                self.reserved[job.queue, job.written] += max(missing - held[name], 0)
            if job.is_complete:
                for card in job.written.split("|"):
                    self.elastic[job.queue, card] += min(held_of[name, card], max(held[name] - job.needed, 0))

    def inqueue(self, queue: str) -> int:
        """The cards of all models that admitted jobs of a queue still need."""
        return sum(number for (of, _), number in self.reserved.items() if of == queue)

    def places(self, job: "Job") -> int:
        """The number of further Pods of a job for which the quota and the nodes have room."""
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

    def admission_room(self, queue: str, cards: Iterable[str]) -> int:
        """The cards that can still be admitted; the exact number if no admitted job may choose between cards."""
        keys = [(queue, card) for card in cards]
        held = sum(self.used[key] - self.terminating[key] + self.reserved[key] - self.elastic[key] for key in keys)
        return sum(self.quota[queue].get(card, 0) for card in cards) - held

    def _card_on(self, name: str, resource: str) -> str:
        product = self._nodes[name][f"{GPU}.product"]
        parts = {GPU: "", MIG_RESOURCE: "/mig-1g.18gb-mixed", SHARED: "/mps-80g*1/2"}
        return f"{product}{parts[resource]}"


def problem(totals: Counter[str], quota: int) -> str | None:
    """The problem of a card that a queue with this quota sees."""
    if not totals["existing"]:
        return "CardNotFound"
    if not quota or totals["granted"] <= totals["healthy"]:
        return None
    return "CardOverGranted" if totals["granted"] > totals["existing"] else "CardUnhealthy"


class Actor:
    """Makes random changes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        nodes = [
            node("a", f"64c+256Gi+{GPU}=3+{MIG_RESOURCE}=3", labels(H200)),
            node("b", f"64c+256Gi+{GPU}=2+{SHARED}=4", labels(H800, memory=81559) | {f"{GPU}.replicas": "2"}),
            node("c", f"64c+256Gi+{GPU}=3", labels(H800, memory=81559)),
        ]
        for raw in nodes:
            raw["status"]["capacity"] = dict(raw["status"]["allocatable"])
        self.history = History(nodes, [quota_queue(name, self._quota()) for name in QUEUES])
        self._groups: list[tuple[str, str, int]] = []
        """The name of a job, the annotation of its Pods, and the number of Pods created."""
        self._announced: dict[str, int] = {}
        """Maps each job that has announced cards and has no Pods yet to the number of its Pods."""

    def _quota(self) -> dict[str, int]:
        return {card: self._random.randint(0, 4) for card in (H200, H800, MIG, MPS) if self._random.random() < 0.8}

    def create_admitted(self) -> None:
        """Creates the Pods of the jobs that the last session has admitted, as the job controller does."""
        for at, (name, _, _) in enumerate(self._groups):
            if name in self._announced and phase_of(self.history.get("PodGroup", name)) == "Inqueue":
                self._add_pods(at, self._announced.pop(name))

    def change(self) -> None:
        random, history = self._random, self.history
        changes = ["create", "create", "announce", "grow", "terminate", "gone", "finish", "shrink", "quota", "restart"]
        match random.choice(changes):
            case "announce":  # of a job whose Pods are created when it is admitted
                name, card, number = f"g{len(self._groups)}", random.choice(list(RESOURCES)), random.randint(1, 3)
                request = {card: number * self._amount(len(self._groups))}
                history.create(card_group(name, random.choice(QUEUES), number, request))
                self._groups.append((name, card, 0))
                self._announced[name] = number
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
        asks, labels = f"1c+1Gi+{RESOURCES[card]}={self._amount(at)}", {WORKLOAD: ONLINE} if at % 3 == 0 else {}
        pods = [card_pod(f"{name}-{existing + i}", name, card, asks, labels=labels) for i in range(number)]
        self.history.create(pods)
        self._groups[at] = name, card, existing + number

    @staticmethod
    def _amount(at: int) -> int:
        """The cards of each Pod of a job."""
        return 1 + at % 2


def phase_of(group: Raw) -> str:
    return str((group.get("status") or {}).get("phase") or "Pending")


Samples = dict[tuple[str, str, str], float]
"""Maps the name of a metric, queue and resource to the value."""


def samples_of(history: History, metrics: Metrics) -> Samples:
    """The metrics of queues after a session."""
    assert history.outcome is not None
    session = history.outcome.session
    usage, figures = session.usage_by_queue(), session.figures()
    metrics.session.update(session.jobs, session.queues, session.dimensions, {}, figures, usage)
    metrics.shares.update(session, figures, usage)
    samples = (s for family in (*metrics.session.collect(), *metrics.shares.collect()) for s in family.samples)
    return {(s.name, s.labels["queue_name"], s.labels["resource"]): s.value for s in samples if "resource" in s.labels}


def reported(history: History, samples: Samples, queue: str) -> dict[str, dict[str, int]]:
    """Returns ``status.cards`` of a queue, and asserts that metrics and the command line repeat it."""
    raw = history.get("Queue", queue)
    cards: dict[str, dict[str, str]] = raw["status"].get("cards") or {}
    for card, its in cards.items():
        for field, word in FIGURES.items():
            name = f"volcano_queue_{word}_scalar_resources"
            assert samples[name, queue, card] == 1000 * int(its[field]), (card, field)
    assert printed_cards(raw) == cards
    assert history.outcome is not None
    totals = queue_totals(history.outcome.session)[queue].amounts
    shown = {its.resource: its for its in totals if its.requested is not None}
    for card, its in cards.items():  # for explain, queue top, the web page and the API of tenants
        of = shown[card]
        numbers = {key: its[key] for key in its if key not in (*WORKLOADS, "problem")}
        written = {key: of.capability if key == "quota" else getattr(of, key) for key in numbers}
        assert {key: format_amount(card, amount or 0.0) for key, amount in written.items()} == numbers, card
    listed(history, raw)
    return {card: {key: int(its[key]) for key in its if key != "problem"} for card, its in cards.items()}


def used_by_workload(history: History, queue: str, card: str) -> dict[str, float]:
    """The metric of the cards in use of a queue, by workload."""
    assert history.outcome is not None
    figures = CardUserFigures()
    figures.update(history.outcome.session.cards_in_use())
    samples = (sample for family in figures.collect() for sample in family.samples)
    of = {"card": card, "queue_name": queue, "namespace_name": "default"}
    return {s.labels["workload"]: s.value for s in samples if s.labels.items() >= of.items()}


def printed_cards(raw: Raw) -> dict[str, dict[str, str]]:
    """The cards in the table of ``queue get``."""
    lines = list(amount_lines(amounts_of(raw)))
    if not lines:
        return {}
    starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
    ends = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    titles = [title.lower().replace("capability", "quota") for title in cells(lines[0])]
    found = [dict(zip(titles, cells(line), strict=True)) for line in lines[1:]]
    return {
        row["resource"]: {title: cell for title, cell in row.items() if cell and title != "resource"}
        for row in found
        if row["resource"].startswith("NVIDIA-")
    }


def listed(history: History, raw: Raw) -> None:
    """Asserts that ``queue list -o wide`` has the cards and the numbers of PodGroups of the status."""
    name = raw["metadata"]["name"]
    view = queue_view(lambda queue: queue.metadata.name == name)
    groups = [o for o in history.cluster.objects() if o["kind"] == "PodGroup"]
    objects: dict[Kind, list[Any]] = {
        kind: [msgspec.convert(o, kind.struct) for o in raws] for kind, raws in ((QUEUE, [raw]), (POD_GROUP, groups))
    }
    rows = view.rows(objects)
    titles, line = RowTable(view.columns, WIDE).lines(rows)
    summary = card_summary(raw["status"].get("cards"))
    assert line.rstrip().endswith(summary or "<none>")
    for phase in QUEUE_PHASES:
        cell = line[titles.index(phase.capitalize()) :].split()[0]
        assert int(cell) == raw["status"].get(phase, 0), phase


def refused_rightly(model: Model) -> None:
    """Asserts that no waiting job could be admitted, and no waiting Pod could be placed, after the decisions of the
    session. While Pods terminate, other Pods may wait for their cards; the assertion then does not apply."""
    for name, job in model.jobs.items():
        if job.waits_for_queue:
            assert job.is_checked, name
            chooses = any("|" in other.written for other in model.jobs.values())
            if not chooses and "|" not in job.written:
                assert job.needed > model.admission_room(job.queue, [job.written]), name
        elif job.pods > job.placed and job.pods >= job.minimum:
            needed = max(job.minimum - job.placed, 1)
            assert model.places(job) < needed, name


def admitted_rightly(before: Model, phases: Mapping[str, str]) -> None:
    """The jobs that a session has admitted need no more than there was room for when it began. ``phases``: after it."""
    admitted = [
        job for name, job in before.jobs.items() if job.waits_for_queue and job.is_checked and phases[name] != "Pending"
    ]
    for queue, written in {(job.queue, job.written) for job in admitted}:
        cards = written.split("|")
        if len(cards) == 1 and any("|" in names and n for (of, names), n in before.reserved.items() if of == queue):
            continue
        needed = sum(job.needed for job in admitted if job.queue == queue and set(job.written.split("|")) <= set(cards))
        room = sum(max(before.admission_room(queue, [card]), 0) for card in cards)
        assert needed <= room, (queue, written)


@pytest.mark.parametrize("seed", range(200))
def test_reports_of_cards_equal_the_naive_model_at_every_step(seed: int) -> None:
    random = Random(seed)
    actor = Actor(random)
    history, metrics = actor.history, Metrics()
    before: dict[tuple[str, str], int] = {}
    for _ in range(12):
        actor.change()
        objects = history.cluster.objects()
        stored = {o["metadata"]["name"]: phase_of(o) for o in objects if o["kind"] == "PodGroup"}
        opened = Model(objects, stored)
        history.cycle(CONFIGURATION)
        assert history.outcome is not None
        phases = {job.name: job.phase or "Pending" for job in history.outcome.session.jobs.values()}
        admitted_rightly(opened, phases)
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
                used, online = model.used[queue, card], model.online[queue, card]
                by_workload = {ONLINE: online, OFFLINE: used - online}
                assert {workload: its.get(workload, 0) for workload in WORKLOADS} == by_workload, (queue, card)
                measured = used_by_workload(history, queue, card)
                assert measured == {workload: n for workload, n in by_workload.items() if n}, (queue, card)
            for card, its in cards.items():
                totals = model.totals.get(card, Counter())
                assert {key: its[key] for key in ("granted", "existing", "healthy")} == {
                    key: totals[key] for key in ("granted", "existing", "healthy")
                }, card
                assert (its["guarantee"], its["elastic"] <= model.elastic[queue, card]) == (its["quota"], True), card
                if card in model.quota[queue]:
                    stored_card = history.get("Queue", queue)["status"]["cards"][card]
                    assert stored_card.get("problem") == problem(totals, its["quota"]), (queue, card)
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
        actor.create_admitted()
