"""kube-scheduler's performance workloads on a real API server: our scheduler compared with kube-scheduler and with the
thresholds of Kubernetes.

Each contender gets a new kube-apiserver and etcd with the same nodes and Pods, and no limit on its requests. It starts
as a standby, so it has read the cluster when the clock starts: at the moment in which it may lead. The result is the
time from then to the last binding. The rate from the first binding on, which Kubernetes measures, is printed
beside it. Our Pods belong to PodGroups, whose Pods start together. Prints the requests of each contender and a table
and, on request, writes it as Markdown and all figures as JSON; asserts nothing.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.contest import Api, answered_requests, collection_of, cpu_seconds, running
from benchmarks.figures import report
from benchmarks.scheduler_perf import CHURN_INTERVAL, CONFIGURATION, WORKLOADS, Manifest, Pods, Workload
from controlplane.run import ControlPlane

KUBE, OURS = "kube-scheduler", "volcano-py"
SCHEDULER_NAMES = {KUBE: "default-scheduler", OURS: "volcano-py"}
PODS = "/api/v1/pods"
LEASE = "benchmark"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RETRY = "100ms"
"""The time between two attempts of a contender to become the leader."""
REST = 1.0
"""The seconds without work after which a contender is ready."""


@dataclass
class Result:
    """The result of one contender in one workload."""

    workload: str
    contender: str
    nodes: int
    pods: int
    bound: int = 0
    seconds: float = 0.0
    """The seconds from the moment when the contender may lead to the last binding."""
    binding: float = 0.0
    """The seconds from the first binding to the last one."""
    cpu: float = 0.0
    """The seconds of processor time."""
    threshold: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    """The requests to the API server until the last binding, of the contender and of a churn, such as ``DELETE
    pods``."""

    @property
    def rate(self) -> float:
        """The Pods per second of the whole time."""
        return self.bound / self.seconds if self.seconds else 0.0

    @property
    def binding_rate(self) -> float:
        """The Pods per second after the first binding."""
        return (self.bound - 1) / self.binding if self.binding else 0.0


def requests(manifests: Iterable[Manifest]) -> Iterator[tuple[str, bytes]]:
    for manifest in manifests:
        yield collection_of(manifest), msgspec.json.encode(manifest)


def stamped(
    pods: Pods, prefix: str, contender: str, gang: int, nodes: int = 0, *, groups: bool = True
) -> list[Manifest]:
    """Creates Pods and, for our scheduler, their PodGroups."""
    made = list(pods.groups(prefix, gang)) if groups and contender == OURS else []
    return made + list(pods.bodies(prefix, SCHEDULER_NAMES[contender], gang, nodes))


async def fill(api: Api, workload: Workload, contender: str, gang: int) -> None:
    await api.post_all(requests(workload.surroundings()))
    await api.post_all(requests(workload.node_bodies()))
    for i, pods in enumerate(workload.initial):
        there = stamped(pods, f"init{i}", contender, 1, workload.nodes, groups=workload.preempts)
        await api.post_all(requests(there))
    await api.post_all(requests(stamped(workload.measured, "pod", contender, gang)))


async def churn(api: Api, pods: Pods | None, contender: str) -> None:
    """Creates one more Pod every CHURN_INTERVAL, until cancelled."""
    if pods is None:
        return
    for i in itertools.count():
        await api.post_all(requests(stamped(replace(pods, number=1), f"churn{i}", contender, 1)))
        await asyncio.sleep(CHURN_INTERVAL)


def lease() -> Manifest:
    """A lease that another process holds for an hour."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    held = {"holderIdentity": LEASE, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": held}


@contextmanager
def started(contender: str, plane: ControlPlane, folder: Path) -> Iterator[int]:
    """Runs a contender, and yields its process id."""
    if contender == KUBE:
        durations = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": RETRY}
        election = {
            "leaderElect": True,
            "resourceLock": "leases",
            "resourceName": LEASE,
            "resourceNamespace": "default",
        }
        yield plane.start_kube_scheduler({"leaderElection": election | durations}).pid
        return
    configuration = folder / "volcano-scheduler.conf"
    configuration.write_text(CONFIGURATION, encoding="utf-8")
    options = (
        f"--scheduler-conf={configuration}",
        f"--leader-elect-retry-period={RETRY}",
        f"--leader-elect-resource-name={LEASE}",
        "--leader-elect-resource-namespace=default",
    )
    with running("scheduler", plane, folder, *options) as pid:
        yield pid


async def rest(pid: int) -> None:
    """Waits until a process is idle."""
    await asyncio.sleep(REST)
    before = -1.0
    while cpu_seconds(pid) - before > REST / 20:
        before = cpu_seconds(pid)
        await asyncio.sleep(REST)


async def run(workload: Workload, contender: str, gang: int, patience: float) -> Result:
    result = Result(workload.name, contender, workload.nodes, workload.measured.number, threshold=workload.threshold)
    times: list[float] = []
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(logs=Path(temporary)) as plane:
        plane.apply_crds()
        async with Api.of(plane) as api:
            await fill(api, workload, contender, gang)
            await api.post(LEASES, msgspec.json.encode(lease()))
            ready = asyncio.Event()
            watcher = asyncio.create_task(
                api.watch_bindings(PODS, lambda name: name.startswith("pod-"), result.pods, times, ready)
            )
            await ready.wait()
            with started(contender, plane, Path(temporary)) as pid:
                await rest(pid)
                before = answered_requests(plane.admin.get("/metrics"))
                begun, cpu = time.perf_counter(), cpu_seconds(pid)
                await api.delete(f"{LEASES}/{LEASE}")
                disturbance = asyncio.create_task(churn(api, workload.churn, contender))
                with suppress(TimeoutError):
                    await asyncio.wait_for(watcher, patience)
                result.cpu = cpu_seconds(pid) - cpu
                result.requests = dict((answered_requests(plane.admin.get("/metrics")) - before).most_common())
                disturbance.cancel()
                with suppress(asyncio.CancelledError):
                    await disturbance
    if times:
        result.bound, result.seconds, result.binding = len(times), times[-1] - begun, times[-1] - times[0]
    return result


COLUMNS = ("workload", "nodes", "Pods", KUBE, OURS, "ratio", "threshold", "of threshold", "while binding")
"""``threshold``: the threshold of Kubernetes. ``while binding``: the figures of both schedulers, in the order of the
columns."""


def rows(results: Sequence[Result]) -> Iterator[list[str]]:
    for name in dict.fromkeys(result.workload for result in results):
        of = {result.contender: result for result in results if result.workload == name}
        kube, ours, one = of.get(KUBE), of.get(OURS), next(iter(of.values()))
        yield [
            name,
            f"{one.nodes:,}",
            f"{one.pods:,}",
            _rate(kube),
            _rate(ours),
            _times(ours, kube.rate if kube else 0),
            f"{one.threshold:,.0f}" if one.threshold else "",
            _times(ours, one.threshold),
            " / ".join(f"{result.binding_rate:,.0f}" for result in (kube, ours) if result is not None),
        ]


def _rate(result: Result | None) -> str:
    if result is None:
        return ""
    return f"{result.rate:,.0f}" + ("" if result.bound == result.pods else f" ({result.bound:,} bound)")


def _requests(result: Result) -> str:
    """The requests per Pod that was bound, and the most frequent ones."""
    frequent = [f"{number:,} {name}" for name, number in result.requests.items() if number >= result.pods / 20]
    return f"{sum(result.requests.values()) / max(result.bound, 1):.1f} requests per Pod ({', '.join(frequent)})"


def _times(result: Result | None, other: float) -> str:
    return f"{result.rate / other:.1f} ×" if result is not None and other else ""


def markdown(results: Sequence[Result]) -> str:
    lines = [COLUMNS, ["---"] + ["---:"] * (len(COLUMNS) - 1), *rows(results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)}; all if none is named")
    parser.add_argument("--nodes", type=int, help="scale every workload to so many nodes")
    parser.add_argument("--gang", type=int, default=100, help="Pods per PodGroup")
    parser.add_argument("--only", choices=[KUBE, OURS], help="leave the other contender out")
    parser.add_argument("--patience", type=float, default=600.0, help="seconds after which a contender is given up")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    arguments = parser.parse_args()
    console = Console(width=160)
    results: list[Result] = []
    for name in arguments.names or WORKLOADS:
        workload = WORKLOADS[name].scaled(arguments.nodes) if arguments.nodes else WORKLOADS[name]
        for contender in [arguments.only] if arguments.only else [KUBE, OURS]:
            results.append(uvloop.run(run(workload, contender, arguments.gang, arguments.patience)))
            console.print(f"{name}, {contender}: {_rate(results[-1])} Pods/s, {_requests(results[-1])}")
    table = Table(title="Pods per second")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for row in rows(results):
        table.add_row(*row)
    kube_rates = {result.workload: result.rate for result in results if result.contender == KUBE and result.bound}
    for result in results:
        if result.contender == OURS and result.workload in kube_rates:
            ratio = result.rate / kube_rates[result.workload]
            report(f"{result.workload}, of {KUBE}", ratio, higher_is_better=True)
    console.print(table)
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results), encoding="utf-8")
    if arguments.json:
        figures = [asdict(result) | {"rate": result.rate, "binding_rate": result.binding_rate} for result in results]
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
