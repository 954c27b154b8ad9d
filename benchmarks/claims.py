"""The published experiments that show what Volcano adds to Kubernetes, repeated with our scheduler and kube-scheduler.

Each scheduler gets a control plane of its own, with fake kubelets; the experiments run on it one after the other. Both
get the same Pods in the same order; PodGroups are created for our scheduler only. Sizes that the publication leaves
open are chosen here. Prints a table, whose second column has what was published; asserts nothing
(``tests/integration/test_claims.py`` does).
"""

import argparse
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.claim_cluster import KUBE, OURS, BatchJob, ClaimCluster, Pace, Step, claim_cluster
from benchmarks.figures import report
from scheduler.api.names import NAMESPACE_WEIGHT, TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY

TENSORFLOW: Final = {"ps": 2, "worker": 4}
DEADLOCK: Final = 6.0
"""The seconds without any change after which jobs that wait for each other count as deadlocked."""


class Outcome(NamedTuple):
    """The result of one scheduler in one experiment."""

    text: str
    figures: Mapping[str, float]


# --- gang -------------------------------------------------------------------------------------------------------------
async def gang(cluster: ClaimCluster, number: int) -> Outcome:
    """Jobs of 2 ps and 4 workers, created at the same time on two nodes with room for 8 Pods. A job trains once all its
    Pods run, and keeps its resources until then, as TensorFlow does."""
    jobs = [BatchJob(f"gang-{number}-{i}", TENSORFLOW) for i in range(number)]
    await cluster.nodes(f"gang-{number}", 2, 4)
    begun = time.perf_counter()
    await cluster.submit(jobs)
    training: set[str] = set()
    finished: set[str] = set()
    while len(finished) < number:
        for job in jobs:
            if job.name not in training and cluster.phases(job).count("Running") == job.size:
                training.add(job.name)
                await cluster.end(job, f"{cluster.pace.training}s")
        finished = {job.name for job in jobs if cluster.phases(job).count("Succeeded") == job.size}
        if len(finished) < number and not await cluster.change(DEADLOCK) and training == finished:
            break
    seconds = max((step.time for step in cluster.steps), default=begun) - begun
    text = f"{len(finished)} of {number} finished"
    text += f", {seconds:.1f} s" if len(finished) == number else ", deadlock"
    return Outcome(text, {"finished": len(finished), "seconds": seconds})


# --- binpack ----------------------------------------------------------------------------------------------------------
async def binpack(cluster: ClaimCluster, pods: int) -> Outcome:
    """A job of Pods with 0.2 CPU on two nodes with 4 CPUs and 8 GiB."""
    job = BatchJob(f"binpack-{pods}", {"worker": pods}, cpu="200m")
    await cluster.nodes(f"binpack-{pods}", 2, 4)
    await cluster.submit([job])
    await cluster.until(lambda: len(cluster.on_nodes(job)) == pods)
    nodes = sorted(Counter(step.node for step in cluster.on_nodes(job)).values(), reverse=True)
    return Outcome(" + ".join(map(str, nodes)), {"nodes": len(nodes), "fullest": nodes[0]})


# --- task-topology ----------------------------------------------------------------------------------------------------
def traffic(pods: Iterable[Step]) -> int:
    """What a job sends between nodes in a step of its training, in sizes of its model: each ps holds half of the
    parameters and exchanges them with each worker, so a pair sends half of a model, and receives half of one."""
    placed = list(pods)
    return sum(
        server.node != worker.node
        for server in placed
        if server.role == "ps"
        for worker in placed
        if worker.role == "worker"
    )


def preferred(job: str) -> Mapping[str, dict[str, Any]]:
    """The preferences that kube-scheduler has for the same wish: workers near ps, ps apart."""

    def term(role: str) -> list[dict[str, Any]]:
        selector = {"matchLabels": {"job": job, "role": role}}
        return [
            {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}}
        ]

    key = "preferredDuringSchedulingIgnoredDuringExecution"
    return {
        "ps": {"podAffinity": {key: term("worker")}, "podAntiAffinity": {key: term("ps")}},
        "worker": {"podAffinity": {key: term("ps")}},
    }


async def topology(cluster: ClaimCluster, pod_affinity: bool) -> Outcome:
    """Three jobs of 2 ps and 4 workers at once on six nodes with room for 4 Pods each, several times. Each time, their
    Pods are created in another order."""
    wish = {TASK_TOPOLOGY_AFFINITY: "ps,worker", TASK_TOPOLOGY_ANTI_AFFINITY: "ps"}
    costs: list[int] = []
    for turn in range(cluster.pace.rounds):
        prefix = f"topology-{'affinity-' if pod_affinity else ''}{turn}"
        names = [f"{prefix}-{i}" for i in range(3)]
        jobs = [
            BatchJob(name, TENSORFLOW, annotations=wish, affinity=preferred(name) if pod_affinity else {})
            for name in names
        ]
        await cluster.nodes(prefix, 6, 4)
        await cluster.submit(jobs, Random(turn))
        await cluster.until(lambda jobs=jobs: len(cluster.on_nodes(*jobs)) == 18)  # type: ignore[misc]
        costs += [traffic(cluster.on_nodes(job)) for job in jobs]
        await cluster.clear()
    mean = sum(costs) / len(costs)
    return Outcome(f"{mean:.1f} models per step ({min(costs)} to {max(costs)})", {"traffic": mean, "most": max(costs)})


# --- fair shares ------------------------------------------------------------------------------------------------------
class Shares(NamedTuple):
    """How jobs share a cluster while all of them wait for more."""

    at_first: Counter[str]
    """The Pods of each job when the cluster is full for the first time."""
    mean: Mapping[str, float]
    """The part that each job has of the Pods that run, from then until one job has started all its Pods."""


def shares(steps: Sequence[Step], sizes: Mapping[str, int], room: int) -> Shares:
    """``sizes``: the number of Pods of each job; ``room``: the number of Pods that the cluster holds."""
    held: dict[str, str] = {}
    """Maps each Pod that holds a node to its job."""
    started: Counter[str] = Counter()
    at_first: Counter[str] = Counter()
    sums = dict.fromkeys(sizes, 0.0)
    since, last = 0.0, 0.0
    for step in steps:
        if since:
            for job, number in Counter(held.values()).items():
                sums[job] += number * (step.time - last)
        last = step.time
        if not step.holds:
            held.pop(step.pod, None)
            continue
        if step.pod not in held:
            held[step.pod] = step.job
            started[step.job] += 1
        if not since and len(held) == room:
            at_first, since = Counter(held.values()), step.time
        if any(started[job] == size for job, size in sizes.items()):
            break
    total = sum(sums.values()) or 1.0
    return Shares(at_first, {job: part / total for job, part in sums.items()})


async def fair_shares(cluster: ClaimCluster, name: str, queues: bool) -> Outcome:
    """Two jobs of 300 and 60 Pods wait until three nodes with room for 60 Pods come; Pods end after a while."""
    made = [f"{name}-{size}" for size in ("large", "small")]
    if queues and cluster.contender == OURS:
        for queue in made:
            meta, spec = {"name": queue}, {"weight": 1}
            version = "scheduling.volcano.sh/v1beta1"
            await cluster.create({"apiVersion": version, "kind": "Queue", "metadata": meta, "spec": spec})
    large, small = (
        BatchJob(
            job, {"worker": size}, minimum=1, runs_for=f"{cluster.pace.pod}s", queue=job if queues else "default"
        )
        for job, size in zip(made, (300, 60), strict=True)
    )  # fmt: skip
    await cluster.submit([large, small], Random(0))
    await cluster.settle()
    begun = time.perf_counter()
    await cluster.nodes(name, 3, 20)
    await cluster.until(lambda: cluster.phases(small).count("Succeeded") == small.size)
    seconds = time.perf_counter() - begun
    found = shares(cluster.steps, {large.name: large.size, small.name: small.size}, 60)
    first = found.at_first
    text = f"{first[large.name]} and {first[small.name]}"
    text += f"; over time {found.mean[large.name]:.0%} and {found.mean[small.name]:.0%}"
    text += f"; the small job takes {seconds:.0f} s"
    return Outcome(
        text, {"large": first[large.name], "small": first[small.name], "mean": found.mean[small.name]}
    )  # fmt: skip


async def namespaces(cluster: ClaimCluster) -> Outcome:
    """Jobs of 60 Pods in two namespaces with the weights 3 and 1 wait until two nodes with room for 40 Pods come."""
    jobs = [BatchJob(f"share-{name}", {"worker": 60}, minimum=1, namespace=name) for name in NAMESPACES]
    for name, weight in NAMESPACES.items():
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "weight", "namespace": name}}
        await cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {**quota, "spec": {"hard": {NAMESPACE_WEIGHT: weight}}},
        )
    await cluster.submit(jobs, Random(0))
    await cluster.settle()
    await cluster.nodes("share", 2, 20)
    await cluster.until(lambda: len(cluster.on_nodes(*jobs)) == 40)
    first, second = (len(cluster.on_nodes(job)) for job in jobs)
    await cluster.clear(tuple(NAMESPACES))
    return Outcome(f"{first} and {second}", {"first": first, "second": second})


NAMESPACES: Final = {"vc-test-1": "3", "vc-test-2": "1"}


# --- the table --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Experiment:
    """A row of the table."""

    name: str
    published: str
    """What was published about Volcano, and about kube-scheduler if it differs."""
    run: Callable[[ClaimCluster], Awaitable[Outcome]]
    contenders: tuple[str, ...] = (KUBE, OURS)


_DEADLOCK = "all finish; kube-scheduler: deadlock"
EXPERIMENTS: Final = {
    "gang-1": Experiment("gang: 1 job", "as long as with kube-scheduler", lambda c: gang(c, 1)),
    "gang-2": Experiment("gang: 2 jobs", _DEADLOCK, lambda c: gang(c, 2)),
    "gang-5": Experiment("gang: 5 jobs", _DEADLOCK, lambda c: gang(c, 5)),
    "binpack-16": Experiment("binpack: 16 Pods", "one node", lambda c: binpack(c, 16)),
    "binpack-24": Experiment("binpack: 24 Pods", "one node full, the rest on the other", lambda c: binpack(c, 24)),
    "topology": Experiment("task-topology: 3 jobs", "33 % less time than kube-scheduler", lambda c: topology(c, False)),
    "pod-affinity": Experiment("  with Pod affinity instead", "", lambda c: topology(c, True), (KUBE,)),
    "jobs": Experiment(
        "fair share: jobs of 300 and 60 Pods", "equal; kube-scheduler: more for the larger job",
        lambda c: fair_shares(c, "jobs", False),
    ),
    "queues": Experiment("  in two queues of equal weight", "equal", lambda c: fair_shares(c, "queues", True), (OURS,)),
    "namespaces": Experiment("fair share: namespaces 3 to 1, 60 Pods each", "3 to 1", namespaces),
}  # fmt: skip


async def run(contender: str, names: Iterable[str], pace: Pace) -> dict[str, Outcome]:
    """Runs experiments with one scheduler, one after the other."""
    found: dict[str, Outcome] = {}
    async with claim_cluster(contender, pace) as cluster:
        for name in names:
            if contender in EXPERIMENTS[name].contenders:
                found[name] = await EXPERIMENTS[name].run(cluster)
                await cluster.clear()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--only", choices=[KUBE, OURS], help="leave the other scheduler out")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    arguments = parser.parse_args()
    names = arguments.names or list(EXPERIMENTS)
    contenders = [arguments.only] if arguments.only else [KUBE, OURS]
    found = {contender: uvloop.run(run(contender, names, Pace())) for contender in contenders}
    columns = ("experiment", "published for Volcano", *contenders)
    table = Table(title="The experiments that were published for Volcano")
    for column in columns:
        table.add_column(column)
    lines: list[Sequence[str]] = [columns, ["---"] * len(columns)]
    for name in names:
        outcomes = [found[contender].get(name, Outcome("", {})) for contender in contenders]
        row = (EXPERIMENTS[name].name, EXPERIMENTS[name].published, *(outcome.text for outcome in outcomes))
        table.add_row(*row)
        lines.append([cell.strip() for cell in row])
    for name, outcome in found.get(OURS, {}).items():
        for figure, value in outcome.figures.items():
            report(f"{name}: {figure}", value, higher_is_better=figure in ("finished", "fullest", "small", "mean"))
    Console(width=170).print(table)
    if arguments.markdown:
        text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        arguments.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
