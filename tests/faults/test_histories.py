"""Histories on a real API server: work arrives while requests, processes, nodes and rights have faults. Afterwards, the
history of etcd is free of contradictions and all work is done.

``make faults`` runs more of them, and ``make faults SEED=...`` one of these again.
"""

from collections.abc import Iterator

import pytest

from tests.faults.cluster import Cluster, a_cluster
from tests.faults.histories import run
from tests.faults.schedule import schedule_of

pytestmark = pytest.mark.controlplane

HISTORIES = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.mark.parametrize("seed", range(1, HISTORIES + 1))
def test_a_history_of_faults_leaves_no_contradiction_and_all_work_done(cluster: Cluster, seed: int) -> None:
    result = run(cluster, schedule_of(seed))
    print(result)
    assert not result.findings, f"make faults SEED={seed}"
