"""In every cluster, a vcjob with alternative accelerators has Pods of one alternative, and waits only while none fits;
no queue holds more cards than its quota."""

from collections import Counter, defaultdict
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.actions.alternatives import PATIENCE
from scheduler.api.kinds import POD, VCJOB
from scheduler.api.names import CARD_NAME, JOB_NAME
from tests.builders import Raw
from tests.examples import examples
from tests.unit.actions.alternative_jobs import (
    CAPACITY,
    CARDS,
    H200,
    PPU,
    RESOURCES,
    Cluster,
    alternative,
    card_job,
    card_node,
    card_queue,
    holder,
)

SETTLED = int(PATIENCE) + 12
QUEUES = ("qa", "qb")
LIMITS = ["", "4c+512Gi", "8c+512Gi"]


class Scene:
    """A cluster that changes at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = {
            f"n{i}": (random.choice([H200, PPU]), random.choice([2, 4, 8])) for i in range(random.randint(1, 4))
        }
        self.quotas = {queue: {card: random.choice([0, 4, 8, 16]) for card in (H200, PPU)} for queue in QUEUES}
        queues = [card_queue(queue, quota, random.choice(LIMITS)) for queue, quota in self.quotas.items()]
        nodes = [card_node(name, card, number) for name, (card, number) in self.nodes.items()]
        self.by_cards = random.random() < 0.7
        self.cluster = Cluster(*nodes, *queues, configuration=CARDS if self.by_cards else CAPACITY)
        self.jobs: dict[str, tuple[str, dict[str, tuple[int, int]]]] = {}
        """Name -> queue, and card -> cards of each Pod and number of Pods."""
        self.made = 0

    def change(self) -> None:
        """Adds or deletes a job, or takes cards of a node away or gives them back. Sometimes scheduler and controllers
        are replaced by others before that."""
        if self.random.random() < 0.3:
            self.cluster.simulation = self.cluster.simulation.fork()
        choice = self.random.random()
        if choice < 0.6 or not self.jobs:
            self._add()
        elif choice < 0.8:
            name = self.random.choice(sorted(self.jobs))
            del self.jobs[name]
            self.cluster.delete(VCJOB, name)
        else:
            holders = [pod for pod in self.cluster.all(POD) if pod["metadata"]["name"].startswith("held")]
            if holders:
                self.cluster.delete(POD, self.random.choice(holders)["metadata"]["name"])
            else:
                self._hold()

    def _add(self) -> None:
        name, queue = f"j{self.made}", self.random.choice(QUEUES)
        self.made += 1
        replicas = self.random.randint(1, 3)
        cards = self.random.sample([H200, PPU], self.random.choice([1, 2, 2, 2]))
        listed, sizes = [], {}
        for card in cards:
            count, other = self.random.choice([1, 2, 4]), self.random.choice([None, None, 1, 2])
            listed.append(alternative(card, count, **({} if other is None else {"replicas": other})))
            sizes[card] = count, other or replicas
        self.jobs[name] = queue, sizes
        self.cluster.apply(card_job(name, *listed, replicas=replicas, queue=queue))

    def _hold(self) -> None:
        free = self.free()
        name = self.random.choice(sorted(self.nodes))
        card, _ = self.nodes[name]
        if free[name] > 0:
            self.made += 1
            self.cluster.apply(holder(f"held-{self.made}", name, card, self.random.randint(1, free[name])))

    # --- sums over objects, independent of the scheduler's own books ---
    def pods(self) -> dict[str, list[Raw]]:
        """Job -> its Pods."""
        found: dict[str, list[Raw]] = defaultdict(list)
        for pod in self.cluster.all(POD):
            labels = pod["metadata"].get("labels") or {}
            if JOB_NAME in labels:
                found[labels[JOB_NAME]].append(pod)
        return found

    def free(self) -> dict[str, int]:
        """Node -> its free cards."""
        free = {name: number for name, (_, number) in self.nodes.items()}
        for pod in self.cluster.all(POD):
            name = pod["spec"].get("nodeName")
            if name:
                free[name] -= _number(pod, self.nodes[name][0])
        return free

    def used(self) -> dict[str, Counter[str]]:
        """Queue -> card -> number that Pods on nodes hold."""
        used: dict[str, Counter[str]] = defaultdict(Counter)
        for name, pods in self.pods().items():
            for pod in pods:
                if pod["spec"].get("nodeName") and name in self.jobs:
                    card = pod["metadata"]["annotations"][CARD_NAME]
                    used[self.jobs[name][0]][card] += _number(pod, card)
        return used

    def waiting(self) -> list[str]:
        pods = self.pods()
        return [name for name in self.jobs if not any(pod["spec"].get("nodeName") for pod in pods.get(name, ()))]

    # --- what holds ---
    def check(self) -> None:
        for pods in self.pods().values():
            assert len({pod["metadata"]["annotations"][CARD_NAME] for pod in pods}) == 1
            for pod in pods:
                limits = pod["spec"]["containers"][0]["resources"]["limits"]
                assert len(limits.keys() & set(RESOURCES.values())) == 1
        assert min(self.free().values()) >= 0
        if self.by_cards:
            for queue, used in self.used().items():
                assert all(number <= self.quotas[queue][card] for card, number in used.items())

    def check_settled(self) -> None:
        """No job waits although one of its alternatives has quota and nodes."""
        free, used, reserved = self.free(), self.used(), self._reserved()
        for name in self.waiting():
            queue, sizes = self.jobs[name]
            for card, (count, number) in sizes.items():
                room = sum(free[node] // count for node, (of, _) in self.nodes.items() if of == card)
                others = sum(amounts[card] for other, amounts in reserved[queue].items() if other != name)
                quota = self.quotas[queue][card] - used[queue][card] - others
                fits = room >= number and (quota >= count * number or not self.by_cards)
                assert not fits, f"{name} waits, and {card} fits"

    def _reserved(self) -> dict[str, dict[str, Counter[str]]]:
        """Queue -> job that waits for nodes -> the cards that are reserved for it."""
        pods = self.pods()
        result: dict[str, dict[str, Counter[str]]] = defaultdict(dict)
        for name in self.waiting():
            queue, sizes = self.jobs[name]
            for card in {pod["metadata"]["annotations"][CARD_NAME] for pod in pods.get(name, ())}:
                count, number = sizes[card]
                result[queue][name] = Counter({card: count * number})
        return result


def _number(pod: Raw, card: str) -> int:
    limits = pod["spec"]["containers"][0]["resources"].get("limits") or {}
    return int(limits.get(RESOURCES[card], "0"))


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_jobs_have_one_alternative_and_wait_only_while_none_fits(seed: int) -> None:
    scene = Scene(Random(seed))
    for _ in range(scene.random.randint(1, 8)):
        scene.change()
        for _ in range(scene.random.randint(0, 3)):
            scene.cluster.run(1)
            scene.check()
    for _ in range(SETTLED):
        scene.cluster.run(1)
        scene.check()
    if scene.by_cards:  # otherwise other limits of the queues may hold jobs
        scene.check_settled()
