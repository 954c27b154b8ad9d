"""Jobs in super pods over several sessions: blocks stay together while jobs interleave, and when Pods are lost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ASCEND_910, HCCL_RANK_INDEX, SP_BLOCK, SUPER_POD_RANK
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.super_pods import BlockRequest, choose_blocks, numbers_of_parts
from tests.builders import Raw, World, group, pod
from tests.examples import examples
from tests.unit.plugins.ascend.chips import ledger_of
from tests.unit.plugins.ascend.test_super_pods import CONFIGURATION, SELECTOR, cluster

CHIPS = 16


class Ask(NamedTuple):
    """A job: ``blocks`` of ``size`` nodes; it runs with ``minimum`` Pods."""

    blocks: int
    size: int
    minimum: int = 0
    soft: bool = False

    @property
    def pods(self) -> int:
        return self.blocks * self.size


def manifests(name: str, ask: Ask, ranks: Sequence[int] | None = None, request: str = "1c+1Gi") -> list[Raw]:
    whole = group(name, minimum=ask.minimum or ask.pods, annotations={SP_BLOCK: str(ask.size * CHIPS)})
    whole["metadata"]["labels"] = {"super-pod-affinity": "soft"} if ask.soft else {}
    return [whole, *(member(name, i, rank, request) for i, rank in enumerate(ranks or range(ask.pods)))]


def member(name: str, number: int, rank: int, request: str = "1c+1Gi") -> Raw:
    annotations = {HCCL_RANK_INDEX: str(rank)}
    asks = f"{request}+{ASCEND_910}={CHIPS}"
    return pod(f"{name}-{number}", asks, name, selector=SELECTOR, annotations=annotations)


class Place(NamedTuple):
    node: str
    super_pod: str
    number: int


def places(world: World, name: str, ask: Ask) -> dict[int, Place]:
    """Maps each rank to the place of its Pod, for Pods that have nodes."""
    found: dict[int, Place] = {}
    for i in range(ask.pods):
        raw = world.get("Pod", f"{name}-{i}")
        node = raw["spec"].get("nodeName", "")
        if node:
            annotations = raw["metadata"]["annotations"]
            assert node.startswith(f"sp{annotations['super-pod-id']}-")
            place = Place(node, annotations["super-pod-id"], int(annotations[SUPER_POD_RANK]))
            found[int(annotations[HCCL_RANK_INDEX])] = place
    return found


def check(ask: Ask, found: Mapping[int, Place]) -> None:
    """Asserts that Pods with the same number are in one super pod and not more than a block; in hard jobs they are the
    block."""
    by_number: dict[int, set[str]] = {}
    for rank, place in found.items():
        by_number.setdefault(place.number, set()).add(place.super_pod)
        if not ask.soft:
            assert place.number == rank // ask.size
    assert all(len(super_pods) == 1 for super_pods in by_number.values())
    assert all(number <= ask.size for number in Counter(place.number for place in found.values()).values())


ASKS = st.builds(
    lambda blocks, size, least, soft: Ask(blocks, size, min(least, blocks * size), soft),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0, 1, 2, 4]),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    asks=st.lists(ASKS, min_size=1, max_size=3),
    random=st.randoms(use_true_random=False),
)
def test_blocks_stay_together_also_when_elastic_jobs_interleave_and_pods_are_lost(
    sizes: list[int], asks: list[Ask], random: Random
) -> None:
    jobs = {f"j{i}": ask for i, ask in enumerate(asks)}
    objects = []
    for name, ask in jobs.items():
        ranks = list(range(ask.pods))
        random.shuffle(ranks)
        objects.append(manifests(name, ask, ranks))
    world = World(cluster(*sizes), *objects).run(CONFIGURATION, 2, kubelet=True)
    for lost in range(2):  # another job may take the node of a lost Pod
        nodes: list[str] = []
        for name, ask in jobs.items():
            found = places(world, name, ask)
            check(ask, found)
            assert ask.minimum or len(found) in (0, ask.pods - lost, ask.pods)
            nodes += [place.node for place in found.values()]
        assert len(nodes) == len(set(nodes))
        objects = [replaced(world, name, ask, random.randrange(ask.pods)) for name, ask in jobs.items()]
        world = World(cluster(*sizes), *objects).run(CONFIGURATION, 2, kubelet=True)


def replaced(world: World, name: str, ask: Ask, lost: int) -> list[Raw]:
    """The job with a new Pod in place of one of its Pods. The new Pod has the rank of the lost Pod."""
    pods = [world.get("Pod", f"{name}-{i}") for i in range(ask.pods)]
    rank = int(pods[lost]["metadata"]["annotations"][HCCL_RANK_INDEX])
    pods[lost] = member(name, lost, rank)
    return [manifests(name, ask)[0], *pods]


def test_a_node_that_another_job_took_meanwhile_does_not_shift_the_pods_of_an_elastic_job() -> None:
    """Two elastic jobs are placed Pod by Pod in turn. Both jobs chose nodes in the same super pods."""
    asks = {"a": Ask(2, 2, 1), "b": Ask(2, 2, 1)}
    world = World(cluster(3, 3), *(manifests(name, ask) for name, ask in asks.items())).run(CONFIGURATION, 3)
    for name, ask in asks.items():
        check(ask, places(world, name, ask))


def test_a_replacement_in_another_super_pod_gets_a_number_of_its_own() -> None:
    ask = Ask(2, 2, soft=True)
    world = World(cluster(2, 2), manifests("j", ask)).run(CONFIGURATION, kubelet=True)
    assert [place.number for _, place in sorted(places(world, "j", ask).items())] == [0, 0, 1, 1]
    left = [
        each for each in cluster(2, 2, 1) if each["metadata"]["name"] != world.get("Pod", "j-1")["spec"]["nodeName"]
    ]
    again = World(left, replaced(world, "j", ask, 1)).run(CONFIGURATION)
    found = places(again, "j", ask)
    assert [found[rank].number for rank in range(4)] == [0, 2, 1, 1]
    assert found[1].super_pod == "2"


def test_a_lost_pod_that_is_not_created_again_yet_does_not_shift_the_blocks_of_the_others() -> None:
    """The Pods of ranks 1, 2 and 5 are lost; only the Pod of rank 2 exists again. Its block is the block of rank 3."""
    ask = Ask(3, 2, 1)
    world = World(cluster(2, 2, 2), manifests("j", ask)).run(CONFIGURATION, 4, kubelet=True)
    before = places(world, "j", ask)
    left = [each for each in replaced(world, "j", ask, 2) if each["metadata"]["name"] not in ("j-1", "j-5")]
    again = World(cluster(2, 2, 2), left).run(CONFIGURATION)
    (bind,) = again.decisions.binds
    assert (bind.task.name, bind.annotations[SUPER_POD_RANK]) == ("j-2", "1")
    assert bind.annotations["super-pod-id"] == before[3].super_pod


def test_a_backup_goes_to_the_super_pod_of_the_block_of_its_pod() -> None:
    """The backup has the rank of its Pod, and the request of one Pod more leaves the blocks of the job as they are."""
    ask = Ask(2, 2)
    world = World(cluster(2, 2), manifests("j", ask)).run(CONFIGURATION, kubelet=True)
    before = places(world, "j", ask)
    for rank in range(ask.pods):
        backup = member("j", 9, rank)
        backup["metadata"]["annotations"] |= {"podType": "backup", "backupSourcePodName": f"j-{rank}"}
        pods = [world.get("Pod", f"j-{i}") for i in range(ask.pods)]
        again = World(cluster(3, 3, 3), manifests("j", ask)[0], *pods, backup).run(CONFIGURATION)
        (bind,) = again.decisions.binds
        assert bind.annotations["super-pod-id"] == before[rank].super_pod
        assert bind.annotations[SUPER_POD_RANK] == str(before[rank].number)
        assert bind.node not in {place.node for place in before.values()}


def test_the_numbers_of_split_blocks_follow_the_super_pods() -> None:
    assert list(numbers_of_parts([0, 0, 1, 1, 2, 2], {}, 3).values()) == [0, 0, 1, 1, 2, 2]
    assert list(numbers_of_parts([0, 0, 0, 0], {}, 2).values()) == [0, 0, 1, 1]
    assert numbers_of_parts([0, 0, 1, 1, 2, 2], {0: 0, 1: 0, 3: 1, 4: 2, 5: 2}, 3)[2] == 1
    assert numbers_of_parts([0, 9, 1, 1], {0: 0, 2: 1, 3: 1}, 2)[1] == 2


def test_the_nodes_of_a_job_fit_all_kinds_of_its_pods() -> None:
    """The Pod of rank 1 needs more memory than the second node has."""
    nodes = cluster(3)
    nodes[1]["status"]["allocatable"]["memory"] = "8Gi"
    whole, first, _ = manifests("j", Ask(1, 2))
    world = World(nodes, whole, first, member("j", 1, 1, "1c+9Gi")).run(CONFIGURATION)
    assert set(world.bound.values()) == {"sp0-n0", "sp0-n2"}


def test_the_reserve_is_used_only_for_what_fits_nowhere_else() -> None:
    free = {0: list(range(6)), 1: list(range(10, 14))}
    assert {row // 10 for block in choose_blocks(free, BlockRequest(3, 2, 2)) for row in block} == {0, 1}
    chosen = choose_blocks(free, BlockRequest(3, 2, 2))
    assert [len(set(free[each]) - {row for block in chosen for row in block}) for each in free] == [2, 2]


class FourPods:
    """A session with a job of four Pods, two super pods of two nodes, and the rows that are chosen for the Pods."""

    def __init__(self) -> None:
        self.session = World(cluster(2, 2), manifests("j", Ask(2, 2))).session(CONFIGURATION)
        self.job = self.session.jobs["default/j"]
        self.tasks = sorted(self.job.tasks(), key=self.session.task_key)
        self.ledger = ledger_of(self.session)
        self.free = self.ledger.free.copy()
        self.rows = self.choose()

    def choose(self) -> list[int]:
        return self.session.view(self.tasks[0].cls, self.job).choose(4)


def test_a_job_that_is_not_placed_leaves_the_chips_as_they_were() -> None:
    four = FourPods()
    rows = four.rows
    statement = four.session.statement()
    statement.allocate(four.job, four.tasks[:3], rows[:3])
    assert (four.ledger.free != four.free).sum() == 3
    statement.discard()
    assert (four.ledger.free == four.free).all()
    assert four.choose() == rows


def test_a_pod_is_not_placed_on_the_node_of_another_pod_of_the_job() -> None:
    four = FourPods()
    rows = four.rows
    with pytest.raises(AllocationError, match="node sp1-n1, which was chosen for Pod default/j-3 in its super pod"):
        four.session.statement().allocate(four.job, four.tasks[2:], [rows[2], rows[1]])
    assert (four.ledger.free == four.free).all()
