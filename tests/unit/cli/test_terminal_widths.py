"""The output of commands on terminals of 80, 100 and 160 columns: nothing is cut off, and no line is too long."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.cli.main import main
from tests.unit.cli.cluster import GROUPS, JOBS, PODS, QUEUES, Cluster, job, pod_group
from tests.unit.cli.job.test_view import owned, pod
from tests.unit.cli.test_explain import CLUSTER_GROUPS, CLUSTER_PODS

WIDTHS = (80, 100, 160)
WAITS = (
    "4/8 tasks in gang unschedulable: pod group is not ready, 8 Pending, 8 minAvailable; Origin reason is sweep-2: 0/9 "
    "nodes are unavailable: 2 Insufficient cpu, 7 node(s) didn't match Pod's node affinity/selector. (cpu: asked 8, "
    "most free on one node 0)"
)
EXAMPLES = ("-f", "examples", "--scheduler-conf", "examples/scheduler.conf")
OF_EXAMPLES = (
    ("simulate", *EXAMPLES),
    ("simulate", "--chips", *EXAMPLES),
    ("explain", "podgroup", "reanalysis", "-n", "weather", *EXAMPLES),
    ("explain", "podgroup", "track", "-n", "vision", *EXAMPLES),
    ("node", "chips", *EXAMPLES),
    ("node", "chips", "npu-3", *EXAMPLES),
    ("node", "chips", "-o", "wide", *EXAMPLES),
    ("queue", "top", *EXAMPLES),
)
OF_CLUSTER = (
    ("job", "top"),
    ("job", "list"),
    ("job", "list", "-o", "wide"),
    ("job", "view", "sweep"),
    ("podgroup", "list", "-o", "wide"),
    ("pod", "list", "-o", "wide"),
    ("queue", "list"),
    ("queue", "list", "-o", "wide"),
    ("queue", "get", "research"),
)
TABLES = (
    ("job", "top"),
    ("job", "list"),
    ("job", "list", "-o", "wide"),
    ("podgroup", "list"),
    ("queue", "list"),
    ("queue", "list", "-o", "wide"),
    ("queue", "get", "research"),
)
CARDS = {
    "NVIDIA-H200": 3,
    "NVIDIA-H800": 2,
    "NVIDIA-GeForce-RTX-4090": 2,
    "NVIDIA-H800/mps-80g*1/2": 2,
    "NVIDIA-H200/mig-1g.18gb-mixed": 3,
    "NVIDIA-H200/mig-3g.71gb-mixed": 1,
}
"""The quota of a queue in the published design of card quotas."""


@pytest.fixture
def busy(cluster: Cluster) -> Cluster:
    """A gang that runs, one that waits, one that has failed, and a Deployment."""
    running = {"state": {"phase": "Running"}, "minAvailable": 2, "running": 2, "succeeded": 1}
    failed = {
        "state": {"phase": "Failed", "message": "the limit of 3 retries is reached; the last cause was PodFailed"}
    }
    cluster.holds(
        JOBS,
        job("pretraining-of-a-large-model", status=running, queue="research"),
        job("sweep", queue="research"),
        job("lost", status=failed, queue="research"),
    )
    groups = (
        pod_group("sweep-1", owner="sweep", why=WAITS),
        owned("podgroup-1", "ReplicaSet", "web-7d4b9c", "Running"),
    )
    pods = (
        pod("web-7d4b9c-x", "podgroup-1", "Running"),
        pod("web-7d4b9c-y", "podgroup-1", why="0/2 nodes are available"),
    )
    for path, objects in ((GROUPS, groups), (CLUSTER_GROUPS, groups), (PODS, pods), (CLUSTER_PODS, pods)):
        cluster.holds(path, *objects)
    amounts = {"cpu": "64", "memory": "256Gi"}
    spec = {"weight": 4, "parent": "root", "capability": amounts, "deserved": amounts}
    cards = {
        name: {"quota": str(quota), "used": "2", "inqueue": "0", "requested": "2" if quota > 1 else "9"}
        for name, quota in CARDS.items()
    }
    cards["NVIDIA-H200/mig-3g.71gb-mixed"] |= {"borrowed": "1", "lent": "0"}
    allocated, deserved = amounts | {"memory": "19595788288"}, amounts | {"cpu": "21333m"}
    status = {"state": "Open", "allocated": allocated, "deserved": deserved, "cards": cards}
    cluster.holds(QUEUES, {"metadata": {"name": "research"}, "spec": spec, "status": status})
    cluster.holds("/api/v1/namespaces/default/events")
    return cluster


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("scheduler.cli.output.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))


def fits(shown: str, piped: str, width: int) -> None:
    """Asserts that no line is too long, and that every word of the output to a pipe is present; a title may have become
    ``WHY:``."""
    assert max(map(len, shown.splitlines())) <= width
    assert _words(piped) - _words(shown) == set()


def _words(text: str) -> set[str]:
    """The words, also between commas, without signs for empty cells."""
    return {word.removesuffix(":") for word in text.replace(",", " ").split()} - {"<none>"}


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", OF_EXAMPLES, ids=" ".join)
def test_a_cluster_in_memory_fits(line: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = CliRunner().invoke(main, line).stdout
    on_terminal(monkeypatch, width)

    fits(CliRunner().invoke(main, line).stdout, piped, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", OF_CLUSTER, ids=" ".join)
def test_objects_of_a_cluster_fit(
    line: tuple[str, ...], width: int, busy: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = busy.prints(*line)
    on_terminal(monkeypatch, width)

    fits(busy.prints(*line), piped, width)


# --- as they look -----------------------------------------------------------------------------------------------------
def looks_as(name: str, width: int, shown: str) -> None:
    """Compares with a file. If it is missing, it is written, and the test fails: look at it."""
    file = Path(__file__).parent / "terminals" / f"{name}-{width}.txt"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
        pytest.fail(f"{file} is new")
    assert shown == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", TABLES, ids="-".join)
def test_tables_of_a_cluster(line: tuple[str, ...], width: int, busy: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, width)
    for module in ("job.top", "podgroup"):
        monkeypatch.setattr(f"scheduler.cli.{module}.age", lambda time, now: "2m3s")

    looks_as("-".join(line), width, busy.prints(*line))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_simulate_says_about_waiting_pods(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, width)

    sections = CliRunner().invoke(main, ["simulate", *EXAMPLES]).stdout.split("\n\n")

    looks_as("simulate", width, "\n\n".join(part for part in sections if part.startswith(("Waiting", "PodGroups"))))


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_an_explanation(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, width)

    looks_as(
        "explain",
        width,
        CliRunner().invoke(main, ["explain", "podgroup", "reanalysis", "-n", "weather", *EXAMPLES]).stdout,
    )
