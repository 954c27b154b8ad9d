"""Sessions that reuse results of earlier sessions decide the same as sessions that compute everything again."""

import random

import pytest

from scheduler.api.kinds import POD
from scheduler.cache import ClusterCache
from scheduler.framework.cycle import run_cycle
from scheduler.record.frames import recorded_decisions
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue
from tests.unit.plugins.ascend.chips import device_info, npu_node

PLANS = [
    configuration(["priority", "gang", "ascend"], ["predicates", "proportion", "nodeorder"]),
    configuration(["gang"], ["predicates", "ascend"]),
    configuration(
        ["priority", "gang"], ["predicates", "task-topology"], actions="enqueue, allocate, preempt, backfill"
    ),
]
CHIPS = "huawei.com/Ascend910"


def forget(cache: ClusterCache) -> None:
    """Makes the next session compute everything again."""
    cache._jobs.drop_views()


class Cluster:
    """Two caches with the same objects; only one of them keeps the results of sessions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.keeping, self.forgetting = ClusterCache([NAME]), ClusterCache([NAME])
        self.jobs: dict[str, int] = {}
        """Maps each name to the number of Pods created so far."""
        self.put(queue("q"), queue("r"), node("plain", "6c"))
        for name in ("a", "b", "c"):
            self.put(npu_node(name), device_info(name, list(range(8))))

    def put(self, *objects: Raw) -> None:
        for cache in (self.keeping, self.forgetting):
            feed(cache, *objects)

    def add_pod(self, job: str, chips: int | None = None) -> None:
        number = self.jobs[job]
        self.jobs[job] += 1
        chips = self.random.choice([0, 1, 2, 3, 4, 8]) if chips is None else chips
        asks = f"1c+{CHIPS}={chips}" if chips else f"{self.random.randint(1, 3)}c"
        labels = self.random.choice([{}, {"fault-scheduling": "grace"}, {"subHealthyStrategy": "graceExit"}])
        priority = self.random.choice([0, 0, 5])
        self.put(pod(f"{job}-{number}", asks, job, priority=priority, labels=labels))

    def change(self) -> None:
        match self.random.randrange(8):
            case 0 | 1 | 6 | 7:
                name = f"j{len(self.jobs)}"
                self.jobs[name] = 0
                size = self.random.randint(1, 4)
                self.put(group(name, self.random.choice("qr"), minimum=size, phase="Inqueue"))
                chips = self.random.choice([0, 1, 2, 4, 8, 8, 3])
                for _ in range(size):
                    self.add_pod(name, chips)
            case 2 if self.jobs:
                self.add_pod(self.random.choice(sorted(self.jobs)))
            case 3 if self.jobs:
                job = self.random.choice(sorted(self.jobs))
                number = self.random.randrange(self.jobs[job])
                for cache in (self.keeping, self.forgetting):
                    cache.delete(POD, "default", f"{job}-{number}")
            case 4 if self.jobs:
                job = self.random.choice(sorted(self.jobs))
                self.put(group(job, "q", minimum=self.random.randint(1, 4), phase="Inqueue"))
            case _:
                self.put(node("plain", f"{self.random.randint(2, 12)}c"))


@pytest.mark.parametrize("seed", range(12))
def test_results_of_earlier_sessions_change_no_decision(seed: int) -> None:
    cluster = Cluster(seed)
    plan = cluster.random.choice(PLANS)
    bound = waiting = 0
    for now in range(40):
        if cluster.random.random() < 0.7:
            cluster.change()
        if cluster.random.random() < 0.1:
            plan = cluster.random.choice(PLANS)
        forget(cluster.forgetting)
        results = []
        for cache in (cluster.keeping, cluster.forgetting):
            cache.configure(plan)
            decisions = run_cycle(cache.snapshot(float(now)), plan).decisions
            cache.assume(decisions)
            results.append(recorded_decisions(decisions))
            bound += len(decisions.binds)
            waiting += len(decisions.pods)
        assert results[0] == results[1]
    assert bound and waiting
    assert any(job.remembered for job in cluster.keeping.snapshot(99.0).jobs.values())
