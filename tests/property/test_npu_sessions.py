"""Chips over several sessions: no chip is given twice, each choice is the best one of the family, in its order, and the
chips of a gang that does not fit are free again.

Each seed is a separate cluster. ``NPU_EXAMPLES`` in the environment sets the number of clusters per family: 10 in CI,
1,000 with ``make test-npu``.
"""

import os
from random import Random

import pytest

from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import ChipFamily
from tests.property.npu_clusters import NpuCluster

EXAMPLES = int(os.environ.get("NPU_EXAMPLES", "10"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_chips_of_one_family_over_sessions(family: ChipFamily) -> None:
    for seed in range(EXAMPLES):
        random = Random(seed)
        cluster = NpuCluster(random, [family], random.randint(1, 6))
        try:
            run(random, cluster, sessions=7, jobs=4)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_chips_of_all_families_in_one_cluster_over_sessions() -> None:
    random = Random(1)
    cluster = NpuCluster(random, FAMILIES, 4)
    run(random, cluster, sessions=10, jobs=40)
    assert cluster.bound > 150


def run(random: Random, cluster: NpuCluster, *, sessions: int, jobs: int) -> None:
    for _ in range(sessions):
        cluster.create_jobs(random.randint(0, jobs))
        cluster.session()
        if random.random() < 0.6:
            cluster.delete_jobs(random.choice([0.2, 0.5, 1.0]))
        if random.random() < 0.3:
            cluster.restart()
