"""Several schedulers on one real API server: each uses its own nodes and queues, and no node or queue is ever used by
two while they move."""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from controlplane.manifests import RELEASE
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, GROUP_NAME, SIGNING_KEY_SECRET
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, Role, emptied, wait

pytestmark = pytest.mark.controlplane

SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"
ELECTION = ("--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms")
QUOTA = 16
"""The number of chips that each queue may have."""


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Namespace]:
    emptied(control_plane)
    yield Namespace(control_plane)
    for item in control_plane.admin.get(SHARDS)["items"]:
        path = f"{SHARDS}/{item['metadata']['name']}"
        control_plane.admin.patch(path, {"metadata": {"finalizers": None}})
        control_plane.admin.delete(path)


class Shards:
    """Schedulers ``s0``, ``s1``, ..., each with a queue ``q0``, ``q1``, ... and three nodes of eight chips."""

    def __init__(self, cluster: Namespace, directory: Path, number: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.names = [f"s{i}" for i in range(number)]
        self.queues = [f"q{i}" for i in range(number)]
        self.roles: dict[str, Role] = {}
        cluster.api.create(f"/api/v1/namespaces/{cluster.name}/secrets", {"metadata": {"name": SIGNING_KEY_SECRET}})
        self.ports = dict(zip(self.names, free_ports(number), strict=True))
        for i, (name, queue) in enumerate(zip(self.names, self.queues, strict=True)):
            self.cluster.api.create(f"{GROUPS}/queues", queue_with_quota(queue))
            for j in range(3):
                self.label(cluster.node(f"{i}-{j}", **{ASCEND_910: "8"}), name)
            annotations = {
                "volcano-py/node-labels": f"shard={name}",
                "volcano-py/queues": queue + (",*" if not i else ""),
            }
            shard = {"apiVersion": "shard.volcano.sh/v1alpha1", "kind": "NodeShard", "spec": {}}
            cluster.api.create(SHARDS, {**shard, "metadata": {"name": name, "annotations": annotations}})

    def label(self, node: str, shard: str) -> None:
        self.cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"shard": shard}}})

    def serve(self, shard: str, queues: str) -> None:
        self.cluster.api.patch(f"{SHARDS}/{shard}", {"metadata": {"annotations": {"volcano-py/queues": queues}}})

    def start(self, name: str) -> None:
        self.roles[name] = Role(
            "scheduler",
            account(self.cluster.plane, "scheduler", self.cluster.name),
            self.directory,
            "--schedule-period=200ms",
            f"--leader-elect-resource-namespace={self.cluster.name}",
            f"--leader-elect-resource-name={RELEASE}-scheduler",
            *ELECTION,
            "--scheduler-sharding-mode=hard",
            f"--scheduler-sharding-name={name}",
            "--enable-metrics=true",
            f"--listen-address=127.0.0.1:{self.ports[name]}",
        )

    def _stop(self, name: str) -> None:
        self.roles[name].stop()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name in self.names:
                self.start(name)
                stack.callback(partial(self._stop, name))
            try:
                yield
            finally:
                for role in self.roles.values():
                    print(role.log.read_text(encoding="utf-8", errors="replace")[-2500:])

    def train(self, name: str, queue: str) -> None:
        """Creates a gang of two Pods of eight chips. Its name begins with the name of the queue."""
        self.cluster.group(name, 2, queue)
        for i in range(2):
            self.cluster.pod(f"{name}-{i}", name, {"cpu": "1", ASCEND_910: "8"})

    def claims(self) -> dict[str, tuple[list[str], str]]:
        """Maps each NodeShard to its claimed nodes and queues."""
        return {
            item["metadata"]["name"]: (
                item.get("status", {}).get("nodesInUse", []),
                item["metadata"]["annotations"].get("volcano-py/queues-in-use", ""),
            )
            for item in self.cluster.api.get(SHARDS)["items"]
        }

    def attempts(self) -> Counter[str]:
        """Maps each result to the number of Pods, summed over all schedulers."""
        total: Counter[str] = Counter()
        for port in self.ports.values():
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                page = answer.read().decode()
            for result, number in re.findall(
                r'^volcano_schedule_attempts_total\{.*result="(\w+)".*\} (\S+)$', page, re.M
            ):
                total[result] += int(float(number))
        return total


def queue_with_quota(name: str) -> dict[str, Any]:
    spec = {"weight": 1, "reclaimable": False, "capability": {"cpu": "100", "memory": "1Ti", ASCEND_910: str(QUOTA)}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@contextmanager
def always(cluster: Namespace, check: Callable[[list[dict[str, Any]]], None]) -> Iterator[None]:
    """Checks the Pods of the namespace again and again during the block."""
    ended = threading.Event()
    failures: list[AssertionError] = []

    def checks() -> None:
        while not ended.is_set() and not failures:
            try:
                check(cluster.pods())
            except AssertionError as error:
                failures.append(error)
            ended.wait(0.05)

    thread = threading.Thread(target=checks, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(20)
    assert not failures, failures[0]


def nothing_is_given_twice(pods: list[dict[str, Any]]) -> None:
    chips: dict[str, list[str]] = defaultdict(list)
    used: Counter[str] = Counter()
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            given = pod["metadata"]["annotations"][ASCEND_910].split(",")
            chips[node] += given
            used[pod["metadata"]["name"].partition("-")[0]] += len(given)
    assert all(len(set(given)) == len(given) for given in chips.values()), chips
    assert all(number <= QUOTA for number in used.values()), used


@pytest.mark.parametrize("number", [2, 4])
def test_schedulers_share_a_cluster_and_hand_over_queues_and_nodes(
    cluster: Namespace, tmp_path: Path, number: int
) -> None:
    shards = Shards(cluster, tmp_path, number)
    for queue in shards.queues:
        for j in range(3):
            shards.train(f"{queue}-{j}", queue)

    def bound_in(queue: str) -> list[str]:
        return [node for name, node in cluster.bound().items() if name.partition("-")[0] == queue]

    with always(cluster, nothing_is_given_twice), shards.running():
        # Each queue gets its quota on the nodes of its own scheduler, and no Pod is tried by two.
        cluster.wait(lambda: len(cluster.bound()) == 2 * number, timeout=90)
        for name, queue in zip(shards.names, shards.queues, strict=True):
            assert {node.split("-")[1] for node in bound_in(queue)} == {name[1:]}
        wait(lambda: shards.attempts()["scheduled"] == 2 * number, 30, shards.attempts)
        assert not shards.attempts()["error"]

        # The first queue, whose quota is used up, and the free node of the first scheduler go to the last one, which is
        # killed meanwhile.
        last = shards.names[-1]
        free = next(n for n in (f"{cluster.name}-0-{j}" for j in range(3)) if n not in cluster.bound().values())
        shards.label(free, last)
        shards.serve("s0", "*")
        shards.serve(last, f"{shards.queues[-1]},q0")
        shards.roles[last].kill()
        shards.train("q0-9", "q0")
        shards.start(last)
        cluster.wait(lambda: "q0" in shards.claims()[last][1].split(","), timeout=90)
        cluster.wait(lambda: free in shards.claims()[last][0], timeout=90)
        first = next(name for name in cluster.bound() if name.startswith("q0-")).rpartition("-")[0]
        for i in range(2):
            cluster.api.delete(f"{cluster.path}/pods/{first}-{i}?gracePeriodSeconds=0")
        cluster.wait(lambda: len(bound_in("q0")) == 2, timeout=90)
        assert set(bound_in("q0")) <= set(shards.claims()[last][0])

        claims = shards.claims()
        for (nodes, queues), (more_nodes, more_queues) in pairwise(claims.values()):
            assert not set(nodes) & set(more_nodes)
            assert not set(queues.split(",")) & set(more_queues.split(","))

    groups = {pod["metadata"]["annotations"][GROUP_NAME] for pod in cluster.pods() if pod["spec"].get("nodeName")}
    assert all(len([p for p in cluster.bound() if p.rpartition("-")[0] == group]) == 2 for group in groups), "gangs"


def test_a_scheduler_withdraws_before_its_shard_is_deleted(cluster: Namespace, tmp_path: Path) -> None:
    shards = Shards(cluster, tmp_path, 2)
    with shards.running():
        cluster.wait(lambda: all(len(nodes) == 3 for nodes, _ in shards.claims().values()), timeout=90)
        for j in range(3):
            shards.label(f"{cluster.name}-0-{j}", "s1")
        cluster.wait(lambda: len(shards.claims()["s1"][0]) == 6, timeout=90)
        cluster.api.delete(f"{SHARDS}/s0")
        cluster.wait(lambda: "s0" not in shards.claims(), timeout=90)


def test_no_shard_starts_while_a_scheduler_without_one_leads(cluster: Namespace, tmp_path: Path) -> None:
    shards = Shards(cluster, tmp_path, 2)
    lease = (f"--leader-elect-resource-namespace={cluster.name}", f"--leader-elect-resource-name={RELEASE}-scheduler")
    rights = account(cluster.plane, "scheduler", cluster.name)
    with cluster.scheduled(tmp_path, "--leader-elect=true", *lease, *ELECTION, kubeconfig=rights):
        wait(lambda: leader(cluster))
        with shards.running():
            log = shards.roles["s0"].log
            cluster.wait(lambda: "waiting for the holder of a lease" in log.read_text(encoding="utf-8"), timeout=90)
            assert all(claims == ([], "") for claims in shards.claims().values())
            shards.train("q0-0", "q0")
            cluster.wait(lambda: len(cluster.bound()) == 2, timeout=60)
    with shards.running():
        cluster.wait(lambda: all(len(nodes) == 3 for nodes, _ in shards.claims().values()), timeout=90)


def leader(cluster: Namespace) -> str:
    leases = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{cluster.name}/leases")["items"]
    return next((lease["spec"].get("holderIdentity") or "" for lease in leases), "")
