"""Runs histories of faults and prints what they showed.

``python -m tests.faults.run`` runs many histories, and ``--seed`` one of them again. With ``--minutes``, histories
without faults of processes run for some time, and the memory and the times of sessions have to stay flat. ``make
faults`` and ``make soak`` call it.
"""

import argparse
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.cluster import Cluster, a_cluster
from tests.faults.histories import Result, run
from tests.faults.schedule import Role, StepKind, schedule_of

NOTICED: Final = 60.0
"""Seconds within which a silent watch has to be noticed."""
LATE: Final = 1.0
"""Seconds that a busy machine may add."""
GROWTH: Final = 1.1
"""The last quarter of a soak may use so many times the memory of the second quarter."""
SLOWER: Final = 1.5
"""And its sessions may take so many times as long."""


def run_histories(cluster: Cluster, seeds: Sequence[int], first: StepKind | None = None) -> list[Result]:
    """Runs a history for each seed and prints a line for each; Ctrl-C ends it early. ``first``: see ``schedule_of``."""
    results: list[Result] = []
    with contextlib.suppress(KeyboardInterrupt):
        for seed in seeds:
            result = run(cluster, schedule_of(seed, first=first))
            print(result, flush=True)
            for finding in result.findings:
                print(f"  seed {seed}: {finding}", flush=True)
            results.append(result)
    return results


def summary(results: Sequence[Result]) -> str:
    """The figures of all histories, as lines."""
    if not results:
        return "no history has ended"
    bad = [result.seed for result in results if result.findings]
    failovers = sorted(seconds for result in results for seconds in result.failovers)
    settled = [result.settled for result in results]
    lines = [
        f"{len(results)} histories, {len(results) - len(bad)} clean" + (f"; findings with seeds {bad}" if bad else ""),
        f"faults injected: {sum(sum(result.injected.values()) for result in results)}",
        f"all work done after the faults ended: median {statistics.median(settled):.1f} s, most {max(settled):.1f} s",
        f"memory of the largest process: {max(result.memory for result in results):.0f} MiB",
    ]
    if failovers:
        median, most = statistics.median(failovers), failovers[-1]
        lines.append(
            f"leaders killed: {sum(result.killed for result in results)}, replaced: {len(failovers)}; "
            f"lease taken after {median:.1f} s (median), {most:.1f} s (most)"
        )
    frozen, replaced = (sum(getattr(result, what) for result in results) for what in ("frozen", "replaced"))
    lines.append(f"leaders frozen: {frozen}, replaced meanwhile: {replaced}")
    return "\n".join(lines)


def soak(cluster: Cluster, minutes: float) -> list[str]:
    """Runs histories with faults of requests only, for some minutes. Prints the memory of each process and the time of
    its sessions for each. Returns what grew."""
    end, seed = time.monotonic() + minutes * 60, 1
    samples: list[dict[str, float]] = []
    problems: list[str] = []
    while time.monotonic() < end:
        result = run(cluster, schedule_of(seed, processes=False))
        problems += result.findings
        sample = {f"{each.name} (MiB)": each.memory() for each in cluster.replicas.running}
        sample["session (ms)"] = cluster.replicas.session_time()
        samples.append(sample)
        print(f"{result}; {', '.join(f'{what} {number:.1f}' for what, number in sample.items())}", flush=True)
        seed += 1
    quarter = len(samples) // 4
    if not quarter:
        return problems
    for what in samples[-1]:
        early = [sample[what] for sample in samples[quarter : 2 * quarter] if what in sample]
        late = [sample[what] for sample in samples[-quarter:] if what in sample]
        if early and late:
            before, after = statistics.median(early), statistics.median(late)
            print(f"{what}: {before:.1f} in the second quarter, {after:.1f} in the last")
            if after > before * (SLOWER if what == "session (ms)" else GROWTH):
                problems.append(f"{what} grew from {before:.1f} to {after:.1f}")
    return problems


def silent_watches(cluster: Cluster) -> list[str]:
    """Makes all open watches silent, and waits until the programs have noticed it. Prints the times. Returns what was
    noticed too late."""
    for role in Role:
        cluster.proxy.silence(role, 2 * NOTICED)
    silenced = cluster.proxy.injected["watch silent"]
    deadline = time.monotonic() + 2 * NOTICED
    while len(cluster.proxy.noticed) < silenced and time.monotonic() < deadline:
        cluster.replicas.supervise()
        time.sleep(0.5)
    noticed = sorted(cluster.proxy.noticed)
    print(f"{len(noticed)} of {silenced} silent watches were noticed, the last after {noticed[-1]:.1f} s", flush=True)
    late = silenced - sum(seconds <= NOTICED + LATE for seconds in noticed)
    return [f"{late} silent watches were not noticed within {NOTICED:.0f} s"] if late else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--histories", type=int, default=500, help="number of histories")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="seed of the first")
    parser.add_argument("--seed", type=int, help="run the history of this seed only")
    parser.add_argument("--step", type=StepKind, choices=list(StepKind), help="begin each history with this fault")
    parser.add_argument("--minutes", type=float, help="run for this time, and compare memory and times")
    parser.add_argument(
        "--silence", action="store_true", help="make all watches silent and measure until it is noticed"
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="directory for the logs of the programs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # of `timeout`
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp(prefix="faults-", dir=options.logs))
    print(f"logs in {logs}", flush=True)
    with a_cluster(logs, measured=options.minutes is not None) as cluster:
        if options.silence:
            problems = silent_watches(cluster)
            print("\n".join(problems) or "all noticed in time")
            return bool(problems)
        if options.minutes is not None:
            problems = soak(cluster, options.minutes)
            print("\n".join(problems) or "flat")
            return bool(problems)
        first = options.seed if options.seed is not None else options.first
        count = 1 if options.seed is not None else options.histories
        results = run_histories(cluster, range(first, first + count), options.step)
    print(summary(results))
    return any(result.findings for result in results)


if __name__ == "__main__":
    sys.exit(main())
