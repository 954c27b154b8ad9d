"""Two replicas of the scheduler and of the controllers on a real API server: memory while objects are created
and deleted, and failover.

``churn`` creates vcjobs, lets them run and deletes them, round after round, and shows the memory of the leader and of
the standby when all jobs are deleted. ``kills`` kills the leaders with SIGKILL repeatedly, and shows the time until
another replica holds the lease, and until it has done its first work. Prints tables; asserts nothing.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.contest import installed
from controlplane.client import Client
from controlplane.run import ControlPlane

BATCH: Final = "/apis/batch.volcano.sh/v1alpha1"
SCHEDULING: Final = "/apis/scheduling.volcano.sh/v1beta1"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE_NAMES: Final = {"scheduler": "volcano-py", "controllers": "volcano-py-controllers"}
TIMEOUT: Final = 900.0
"""The time limit of a wait, in seconds."""
REST: Final = 35.0
"""The seconds between the last deletion of a round and the measurement of memory, in which Events and held statuses are
written."""


class Replica:
    """One process of a role."""

    def __init__(self, role: str, plane: ControlPlane, folder: Path) -> None:
        self.role = role
        self._log = folder / f"{role}-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "scheduler.cli.main", role, "--kubeconfig", str(plane.kubeconfig)]
        command += ["--enable-metrics=false", "--enable-healthz=false", "--leader-elect-resource-namespace=default"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=installed())

    def said(self, text: str) -> bool:
        return text in self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def ready(self) -> bool:
        """Whether the process is the leader or a standby."""
        return self.said("standing by") or self.said('"leading"')

    @property
    def memory(self) -> float:
        """The memory that it uses, in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * 4096 / 2**20


def wait(condition: Callable[[], object], pause: float = 0.05) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("given up")
        time.sleep(pause)


def job(name: str, pods: int, cpu: str = "10m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"volcano-py.test/outcome": "succeed", "volcano-py.test/runs-for": "1s"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    tasks = [{"name": "w", "replicas": pods, "template": template}]
    whole = {"schedulerName": "volcano-py", "minAvailable": pods, "tasks": tasks, **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


@contextmanager
def cluster() -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane with nodes and fake kubelets."""
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        plane.apply_crds()
        plane.start_kwok()
        plane.start_controller_manager()
        for i in range(10):
            amounts = {"cpu": "640", "memory": "2560Gi", "pods": "1000"}
            meta = {"name": f"n{i}", "labels": {"kubernetes.io/hostname": f"n{i}"}}
            body = {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}
            plane.admin.create("/api/v1/nodes", body)
        yield plane, Path(folder)


def stop(replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        replica.process.terminate()
    for replica in replicas:
        replica.process.wait(30)


# --- churn ------------------------------------------------------------------------------------------------------------
def churn(rounds: int, jobs: int, pods: int) -> None:
    """A tenth of the jobs never fits, a seventh has Services; all are deleted at the end."""
    table = Table("Round", *(f"{role}, {place} (MiB)" for role in LEASE_NAMES for place in ("leader", "standby")))
    with cluster() as (plane, folder):
        replicas: list[Replica] = []
        for role in LEASE_NAMES:
            for _ in range(2):
                replicas.append(Replica(role, plane, folder))
                wait(lambda: replicas[-1].ready)
        table.add_row("start", *(f"{replica.memory:.0f}" for replica in replicas))
        for number in range(rounds):
            one_round(plane.admin, f"churn-{number}", jobs, pods)
            table.add_row(str(number + 1), *(f"{replica.memory:.0f}" for replica in replicas))
        stop(replicas)
    Console().print(table)


def one_round(api: Client, namespace: str, jobs: int, pods: int) -> None:
    """Returns when all objects are deleted."""
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def make(i: int) -> None:
        more: dict[str, Any] = {"plugins": {"svc": [], "env": []}} if i % 7 == 0 else {}
        body = job(f"j{i:05d}", pods, "9999" if i % 10 == 0 else "10m", ttlSecondsAfterFinished=1, **more)
        api.create(f"{BATCH}/namespaces/{namespace}/jobs", body)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(make, range(jobs)))
    places = (f"{BATCH}/namespaces/{namespace}/jobs", f"{SCHEDULING}/namespaces/{namespace}/podgroups")
    wait(lambda: len(api.get(places[0])["items"]) <= (jobs + 9) // 10, 3.0)
    api.delete(places[0])
    wait(lambda: not any(api.get(p)["items"] for p in (*places, f"/api/v1/namespaces/{namespace}/pods")), 3.0)
    time.sleep(REST)


# --- kills ------------------------------------------------------------------------------------------------------------
def kills(number: int) -> None:
    """Kills leaders at random moments between two renewals; the other replica is the standby."""
    table = Table("Role", "Another holds the lease after (s)", "and has done something after (s)")
    chance = random.Random(20261122)
    with cluster() as (plane, folder):
        replicas = {role: [Replica(role, plane, folder) for _ in range(2)] for role in LEASE_NAMES}
        taken: dict[str, list[float]] = {role: [] for role in LEASE_NAMES}
        done: dict[str, list[float]] = {role: [] for role in LEASE_NAMES}
        for i in range(number):
            for role, pair in replicas.items():
                wait(lambda pair=pair: all(replica.ready for replica in pair))  # type: ignore[misc]
                time.sleep(chance.uniform(3.0, 5.5))
                lease, work = one_kill(plane.admin, role, pair, f"{role}-{i}")
                taken[role].append(lease)
                done[role].append(work)
                pair[:] = [replica for replica in pair if replica.process.poll() is None]
                pair.append(Replica(role, plane, folder))
        stop([replica for pair in replicas.values() for replica in pair])
    for role in LEASE_NAMES:
        table.add_row(role, *(" ".join(f"{seconds:.1f}" for seconds in sorted(m[role])) for m in (taken, done)))
    Console().print(table)


def one_kill(api: Client, role: str, pair: Sequence[Replica], namespace: str) -> tuple[float, float]:
    """The seconds until another replica holds the lease, and until it handles a new job."""

    def holder() -> str:
        return str(api.get(f"{LEASES}/{LEASE_NAMES[role]}")["spec"]["holderIdentity"])

    leader = holder()
    next(replica for replica in pair if replica.said(f'"identity": "{leader}"')).process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    if role == "controllers":
        api.create(f"{BATCH}/namespaces/{namespace}/jobs", job("j", 1))
        place, seen = f"{SCHEDULING}/namespaces/{namespace}/podgroups", lambda item: True
    else:
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        api.create(f"{SCHEDULING}/namespaces/{namespace}/podgroups", {**group, "spec": {"minMember": 1}})
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "10m"}}}
        meta = {"name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}}
        place, seen = f"/api/v1/namespaces/{namespace}/pods", lambda item: "nodeName" in item["spec"]
        api.create(place, {"metadata": meta, "spec": {"schedulerName": "volcano-py", "containers": [container]}})
    wait(lambda: holder() != leader)
    lease = time.monotonic() - killed
    wait(lambda: any(map(seen, api.get(place)["items"])))
    return lease, time.monotonic() - killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    churning = commands.add_parser("churn")
    churning.add_argument("--rounds", type=int, default=6)
    churning.add_argument("--jobs", type=int, default=1000)
    churning.add_argument("--pods", type=int, default=4, help="per job")
    commands.add_parser("kills").add_argument("--number", type=int, default=10)
    options = parser.parse_args()
    if options.command == "churn":
        churn(options.rounds, options.jobs, options.pods)
    else:
        kills(options.number)


if __name__ == "__main__":
    main()
