"""No queue falls below what it deserves for another queue while a third one can give. The tests cover every action that
evicts, every plugin that divides the cluster, in any tier, and nodes in pools that not every Pod can use."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from random import Random
from typing import ClassVar
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.actions.eviction.guard import DeservedGuard
from scheduler.api.names import PREEMPTABLE
from scheduler.api.node import Mask
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.extension import RECLAIMABLE
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.session import Session
from tests.builders import Raw, World, group, node, pod, queue
from tests.examples import examples
from tests.unit.plugins.capacity_card.cards import H200, H800, card_group, card_pod, gpu_node, quota_queue

GPU = "nvidia.com/gpu"
FLAT = {"capacity": "{name: capacity}", "proportion": "{name: proportion}"}
QUOTAS = {
    **FLAT,
    "hierarchy": "{name: capacity, enableHierarchy: true}",
    "hierarchy, level 1": "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}",
}
OTHERS = ("qb", "qc", "qd")
SETTINGS = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SEEDS = st.integers(0, 2**32)


@cache
def conf(quota: str, actions: str, *, first: bool, more: str = "") -> Configuration:
    """``first``: whether the plugin is in the first tier; otherwise the first tier decides without it."""
    above, below = (f", {quota}", "") if first else ("", f", {quota}")
    return parse_configuration(
        f"actions: {actions}\ntiers:\n- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}{above}]\n"
        f"- plugins: [{{name: predicates}}, {{name: nodeorder}}{below}{more}]\n"
    )


class Cluster(msgspec.Struct):
    """A cluster full of Pods of other queues, where Pods of the queue qa wait."""

    objects: list[Raw]
    parents: dict[str, str]
    """Maps each queue to its parent."""


def full_cluster(seed: int, *, whole: bool, waiting: int = 1, gang: bool = False) -> Cluster:
    """``whole``: every Pod holds one cpu and queues deserve whole numbers of cpus, so that no Pod takes a queue below
    what it deserves unless the queue has no more than it deserves. ``gang``: the waiting Pods are one job."""
    random = Random(seed)
    parents = {"left": "root", "right": "root"}
    parents |= {name: random.choice(["left", "right", "root"]) for name in ("qa", *OTHERS)}
    objects: list[Raw] = []
    for name, parent in parents.items():
        deserved = f"{random.randint(0, 5)}c"
        if not whole:
            deserved += random.choice(["", f"+{random.randint(1, 6)}Gi"]) + random.choice(["", f"+{GPU}=1"])
        if name == "qa":
            deserved = f"9c+99Gi+{GPU}=9"
        objects.append(queue(name, random.randint(1, 3), deserved=deserved, parent=parent))
    number = 0
    for n in range(random.randint(1, 3)):
        room, memory, cards = random.randint(2, 5), random.choice([3, 64]), 0 if whole else random.choice([0, 2])
        places = random.choice([110, 110, 3])
        objects.append(node(f"n{n}", f"{room}c+{memory}Gi+{places}p+{GPU}={cards}", {"pool": random.choice("xy")}))
        while room > 0 and memory > 0 and places > 0:
            cpu = 1 if whole else random.randint(1, min(room, 3))
            gib, card = random.randint(0, min(memory, 2)), random.randint(0, min(cards, 1))
            job = random.choice(OTHERS)
            objects.append(
                pod(f"{job}-{number}", asks(cpu, gib, card), job, on=f"n{n}", annotations={PREEMPTABLE: "true"})
            )
            number, room, memory, cards = number + 1, room - cpu, memory - gib, cards - card
            places -= 1
    objects += [group(name, name, 0, phase="Running") for name in OTHERS]
    pool = random.choice([{"pool": "x"}, {}])
    for i in range(waiting):
        wanted = asks(1, 0, 0) if whole else asks(random.randint(1, 3), random.randint(0, 1), random.randint(0, 1))
        job = "wait" if gang else f"wait-{i}"
        objects.append(pod(f"wait-{i}", wanted, job, selector=pool))
        if not gang:
            objects.append(group(job, "qa", 1, phase="Inqueue"))
    if gang:
        objects.append(group("wait", "qa", waiting, phase="Inqueue"))
    return Cluster(objects, parents)


def asks(cpu: int, gib: int, cards: int) -> str:
    return "+".join([f"{cpu}c", *([f"{gib}Gi"] if gib else []), *([f"{GPU}={cards}"] if cards else [])])


class Shares:
    """The amounts that the queues of a session hold and deserve, computed from its tasks."""

    def __init__(self, session: Session, parents: dict[str, str], *, hierarchy: bool) -> None:
        self.session = session
        self._parents = parents if hierarchy else {}
        self.reclaimer = "qa"
        """The queue that takes; "": none."""
        self.deserved = session.deserved()
        self.held: dict[str, Vector] = {name: session.dimensions.zeros() for name in (*parents, "root", "default")}
        for job in session.jobs.values():
            for above in self.path(job.queue):
                self.held[above] = self.held[above] + job.allocated

    def path(self, name: str) -> list[str]:
        """The queue and its ancestors, without the root."""
        found = [name]
        while self._parents.get(found[-1], "root") != "root":
            found.append(self._parents[found[-1]])
        return found

    def unshared(self, task: Task) -> list[str]:
        return [name for name in self.path(self.queue(task)) if name not in self.path(self.reclaimer)]

    def queue(self, task: Task) -> str:
        return self.session.jobs[task.job].queue

    def evict(self, task: Task) -> None:
        for name in self.path(self.queue(task)):
            self.held[name] = self.held[name] - task.cls.request

    def above(self, task: Task, request: Vector | None = None) -> bool:
        """Whether the queue of a task has more than it deserves of a requested resource that the task holds."""
        name, matters = self.queue(task), of(task, request)
        return bool(((self.held[name] >= self.deserved[name] + SMALLEST) & matters).any())

    def keep(self, tasks: Sequence[Task], request: Vector | None = None) -> bool:
        """Whether all queues would keep what they deserve of the requested resources without the tasks."""
        left = dict(self.held)
        for task in tasks:
            for name in self.unshared(task):
                left[name] = left[name] - task.cls.request
        return all(
            bool((left[name] > self.deserved[name] - SMALLEST)[of(task, request)].all())
            for task in tasks
            for name in self.unshared(task)
        )


def of(task: Task, request: Vector | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The resources that a task holds and that are requested; if there are none, those that it holds."""
    held = task.cls.request > 0
    held[PODS_INDEX] = False
    both = held if request is None else held & (request > 0)
    return both if both.any() else held


def running(session: Session) -> Iterator[Task]:
    """The tasks of other queues than qa."""
    for job in session.jobs.values():
        if job.queue != "qa":
            yield from job.of(TaskStatus.RUNNING).values()


def opened(cluster: Cluster, settings: Configuration, quota: str) -> Shares:
    session = World(cluster.objects).session(settings)
    return Shares(session, cluster.parents, hierarchy=quota.startswith("hierarchy"))


def evictions(cluster: Cluster, settings: Configuration) -> list[str]:
    return [eviction.task.name for eviction in World(cluster.objects).run(settings).decisions.evictions]


@SETTINGS
@given(SEEDS, st.sampled_from(list(QUOTAS)), st.booleans(), st.sampled_from(["reclaim", "gangreclaim"]))
def test_no_queue_loses_what_it_deserves_where_pods_are_equal(seed: int, quota: str, first: bool, action: str) -> None:
    gang = action == "gangreclaim"
    cluster = full_cluster(seed, whole=True, waiting=1 + seed % 5, gang=gang)
    settings = conf(QUOTAS[quota], action, first=first)
    shares = opened(cluster, settings, quota)
    tasks = {task.name: task for task in running(shares.session)}
    request = next(t.cls.request for j in shares.session.jobs.values() if j.queue == "qa" for t in j.tasks())
    for name in evictions(cluster, settings):
        assert shares.above(tasks[name], request), name  # a task of qa itself would be a KeyError
        whole = quota != "proportion"  # which deserves fractions of a cpu
        shares.evict(tasks[name])
        left = shares.held[shares.queue(tasks[name])] - shares.deserved[shares.queue(tasks[name])]
        assert not whole or left[0] >= 0, name


@SETTINGS
@given(SEEDS, st.sampled_from(list(QUOTAS)), st.booleans(), st.sampled_from(["reclaim", "gangreclaim"]))
def test_a_queue_falls_below_only_if_no_other_queue_can_give(seed: int, quota: str, first: bool, action: str) -> None:
    cluster = full_cluster(seed, whole=False)
    settings = conf(QUOTAS[quota], action, first=first)
    shares = opened(cluster, settings, quota)
    session = shares.session
    tasks = {task.name: task for task in running(session)}
    victims = [tasks[name] for name in evictions(cluster, settings)]
    (job,) = (job for job in session.jobs.values() if job.queue == "qa")
    (waiting,) = job.tasks()
    request = waiting.cls.request
    assert all(shares.above(task, request) for task in victims)
    if victims:
        row = session.nodes.index[victims[0].node]
        assert fits(session, waiting, row, victims)
        assert not any(fits(session, waiting, row, [t for t in victims if t is not spare]) for spare in victims)
        if not shares.keep(victims, request):
            assert not any(shares.keep(found, request) for found in openings(shares, waiting))


@SETTINGS
@given(SEEDS, st.sampled_from(list(QUOTAS)), st.booleans(), st.booleans())
def test_nodes_that_are_left_out_beforehand_would_make_no_room(seed: int, quota: str, first: bool, whole: bool) -> None:
    cluster = full_cluster(seed, whole=whole, waiting=1 + seed % 3)
    settings = conf(QUOTAS[quota], "reclaim", first=first)
    fast = evictions(cluster, settings)
    with patch.object(DeservedGuard, "enough", everywhere):
        assert evictions(cluster, settings) == fast


def openings(shares: Shares, waiting: Task) -> Iterator[Sequence[Task]]:
    """The sets of tasks on one node whose eviction makes room for a task, and that the plugins alone would allow."""
    session = shares.session
    job = session.jobs[waiting.job]
    usable = session.view(waiting.cls, job).unresolvable()
    for row, name in enumerate(session.nodes.names):
        here = [task for task in running(session) if task.node == name and approved(session, waiting, task)]
        if not usable[row]:
            for number in range(1, len(here) + 1):
                yield from (found for found in combinations(here, number) if fits(session, waiting, row, found))


def approved(session: Session, waiting: Task, task: Task) -> bool:
    """Whether no plugin refuses a victim, in whatever tier it stands, and its queue would not take its resources back
    at once."""
    loser, winner = (session.queues[session.jobs[each.job].queue] for each in (task, waiting))
    return session.queue_key(loser) > session.queue_key(winner) and all(
        function(waiting, [task]) for function in session.all_functions(RECLAIMABLE)
    )


def fits(session: Session, waiting: Task, row: int, victims: Sequence[Task]) -> bool:
    """Whether a task has room on a node without some tasks there."""
    left = session.nodes.future_idle_of(row)
    for task in victims:
        left = left + task.cls.request
    return bool((left >= waiting.cls.request).all())


@SETTINGS
@given(SEEDS, st.sampled_from(list(QUOTAS)), st.booleans(), st.sampled_from(["preempt", "gangpreempt"]))
def test_preemption_takes_nothing_from_other_queues(seed: int, quota: str, first: bool, action: str) -> None:
    cluster = full_cluster(seed, whole=False, waiting=1 + seed % 4, gang=action == "gangpreempt")
    for raw in cluster.objects:
        if raw["kind"] == "PodGroup" and raw["metadata"]["name"].startswith("wait"):
            raw["spec"] |= {"queue": Random(seed).choice(OTHERS), "priorityClassName": "high"}
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    world = World(priority, cluster.objects).run(conf(QUOTAS[quota], action, first=first))
    assert world.outcome is not None
    jobs = world.outcome.session.jobs
    preemptors = {jobs[key].queue for key in jobs if jobs[key].name.startswith("wait") and jobs[key].nominated}
    assert {jobs[eviction.task.job].queue for eviction in world.decisions.evictions} <= preemptors


class CardCluster(msgspec.Struct):
    """A cluster full of Pods with one or two cards each of other queues, where Pods of the queue qa wait."""

    objects: list[Raw]
    quotas: dict[str, dict[str, int]]
    """Maps each queue and card to the quota."""
    held: dict[str, dict[str, int]]


def card_cluster(seed: int, *, gang: bool) -> CardCluster:
    random = Random(seed)
    cards = (H200, H800)
    quotas = {name: {card: random.randint(0, 3) for card in cards} for name in OTHERS}
    objects: list[Raw] = [quota_queue(name, quota) for name, quota in quotas.items()]
    objects += [quota_queue("qa", dict.fromkeys(cards, 6)), *(card_group(n, n, 0, phase="Running") for n in OTHERS)]
    held = {name: dict.fromkeys(cards, 0) for name in OTHERS}
    for n in range(random.randint(1, 4)):
        card, number, i = random.choice(cards), random.randint(1, 4), 0
        objects.append(gpu_node(f"n{n}", card, number))
        while number:
            owner, each = random.choice(OTHERS), random.randint(1, min(number, 2))
            raw = card_pod(f"{owner}-{n}-{i}", owner, card, f"1c+{GPU}={each}", on=f"n{n}")
            raw["metadata"]["annotations"][PREEMPTABLE] = "true"
            objects.append(raw)
            held[owner][card] += each
            number, i = number - each, i + 1
    for i in range(random.randint(1, 4)):
        job, wanted = "wait" if gang else f"wait-{i}", random.randint(1, 3)
        accepted = "|".join(random.sample(cards, random.randint(1, 2)))
        objects.append(card_pod(f"wait-{i}", job, accepted, f"1c+{GPU}={wanted}"))
        if not gang or not i:
            objects.append(card_group(job, "qa", 1, phase="Inqueue"))
    return CardCluster(objects, quotas, held)


def card_conf(action: str, *, first: bool, borrowing: bool) -> Configuration:
    quota = f"{{name: capacity-card, arguments: {{cardBorrowing: {str(borrowing).lower()}}}}}"
    return conf(quota, action, first=first)


@SETTINGS
@given(SEEDS, st.booleans(), st.sampled_from(["reclaim", "gangreclaim"]), st.booleans())
def test_no_queue_loses_cards_of_its_quota(seed: int, first: bool, action: str, borrowing: bool) -> None:
    cluster = card_cluster(seed, gang=action == "gangreclaim")
    world = World(cluster.objects).run(card_conf(action, first=first, borrowing=borrowing))
    assert world.outcome is not None
    for eviction in world.decisions.evictions:
        task = eviction.task
        owner, card = task.name.split("-")[0], world.get("Node", task.node)["metadata"]["labels"][f"{GPU}.product"]
        assert cluster.held[owner][card] > cluster.quotas[owner][card]  # a Pod of qa itself would be a KeyError
        number = task.cls.request[world.outcome.session.dimensions.names.index(GPU)] / 1000
        cluster.held[owner][card] -= int(number)


@SETTINGS
@given(SEEDS, st.booleans(), st.booleans())
def test_nodes_that_are_left_out_because_of_cards_would_make_no_room(seed: int, first: bool, borrowing: bool) -> None:
    cluster, settings = card_cluster(seed, gang=False), card_conf("reclaim", first=first, borrowing=borrowing)
    fast = [eviction.task.name for eviction in World(cluster.objects).run(settings).decisions.evictions]
    with patch.object(DeservedGuard, "enough", everywhere):
        slow = [eviction.task.name for eviction in World(cluster.objects).run(settings).decisions.evictions]
    assert fast == slow


def everywhere(self: DeservedGuard, context: object, scope: Mask, shortfall: object) -> Mask:
    every: Mask = np.ones(len(self._session.nodes), dtype=bool)
    return every


class Namer:
    """A plugin that names running Pods for shuffle."""

    name: ClassVar[str] = "namer of victims"

    def __init__(self, arguments: Arguments) -> None:
        self._random = Random(arguments.integer("seed", 0))

    def open(self, session: PluginSession) -> None:
        session.add_victim_tasks(lambda tasks: [task for task in tasks if self._random.random() < 0.7])


@pytest.fixture(scope="module")
def _namer() -> Iterator[None]:
    """Registers the plugin only for the tests of this module, because other tests list all registered plugins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_plugins", {**registry._plugins, Namer.name: Namer})
        yield


@pytest.mark.usefixtures("_namer")
@SETTINGS
@given(SEEDS, st.sampled_from(list(QUOTAS)), st.booleans())
def test_shuffle_spares_what_a_queue_deserves_while_another_can_give_on_the_node(
    seed: int, quota: str, first: bool
) -> None:
    cluster = full_cluster(seed, whole=False, waiting=0)
    more = f", {{name: {Namer.name}, arguments: {{seed: {seed}}}}}"
    settings = conf(QUOTAS[quota], "shuffle", first=first, more=more)
    shares = opened(cluster, settings, quota)
    shares.reclaimer = ""
    tasks = {task.name: task for task in running(shares.session)}
    for name in evictions(cluster, settings):
        task = tasks.pop(name)
        if not shares.keep([task]):
            here = [other for other in tasks.values() if other.node == task.node]
            assert not any(shares.keep([t]) for t in here if shares.queue(t) != shares.queue(task)), name
        shares.evict(task)
