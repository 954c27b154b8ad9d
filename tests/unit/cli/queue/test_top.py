"""``queue top``: queues as a tree, with their quota and use."""

import json
from pathlib import Path

import pytest

from scheduler.cli.queue.top import with_flags
from scheduler.cli.queue.tree import tree_blocks
from scheduler.cli.text import rendered
from tests.builders import group, node, pod, queue
from tests.unit.cli.cluster import QUEUES, Cluster, Raw
from tests.unit.cli.test_explain import CLUSTER_PODS, holding, live, run, written
from tests.unit.cli.test_visibility import QUOTAS, forbid
from tests.unit.cli.test_watch import terminal

pytestmark = pytest.mark.slow


def child(name: str, parent: str, capability: str = "") -> Raw:
    raw = queue(name, capability=capability)
    return {**raw, "spec": {**raw["spec"], "parent": parent}}


@pytest.fixture
def tree(tmp_path: Path) -> str:
    """The queues root > team > gold, silver; and default. One Pod of gold runs; another one waits, because gold may use
    6 cpu."""
    return written(
        tmp_path / "tree.yaml",
        node("n1", "16c+32Gi"),
        child("team", "root"),
        child("gold", "team", capability="6c+8Gi"),
        child("silver", "team"),
        queue("default"),
        group("runs", "gold", phase="Running"),
        pod("runs-0", "4c+1Gi", "runs", on="n1"),
        group("waits", "gold"),
        pod("waits-0", "4c", "waits"),
    )


@pytest.fixture
def hierarchy(tmp_path: Path) -> str:
    path = tmp_path / "scheduler.conf"
    path.write_text(
        "actions: enqueue, allocate\n"
        "tiers:\n- plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]\n",
        encoding="utf-8",
    )
    return str(path)


def test_queues_are_a_tree_with_amounts_and_a_bar_of_the_use_of_their_quota(tree: str, hierarchy: str) -> None:
    printed = run("queue", "top", "-f", tree, "--scheduler-conf", hierarchy, "-r", "cpu", "-r", "memory").stdout

    assert [line.rstrip() for line in printed.splitlines()] == [
        "Queue           State       Weight  Running   Waiting",
        "  Resource      Use         Used    Deserved  Capability",
        "root            Open        1       1         1",
        "│ cpu                       4",
        "│ memory                    1Gi",
        "├─ default      Open        1       0         0",
        "└─ team         Open        1       1         1",
        "   │ cpu                    4",
        "   │ memory                 1Gi",
        "   ├─ gold      Open        1       1         1",
        "   │    cpu     ██████░░░░  4                 6",
        "   │    memory  █░░░░░░░░░  1Gi               8Gi",
        "   └─ silver    Open        1       0         0",
    ]


def test_a_name_selects_a_queue_and_those_below_it(tree: str, hierarchy: str) -> None:
    arguments = ("-f", tree, "--scheduler-conf", hierarchy, "-o", "json")

    team = json.loads(run("queue", "top", "team", *arguments).stdout)["items"]
    assert [item["queue"] for item in team] == ["gold", "silver", "team"]
    assert {one["queue"] for item in team for one in item["amounts"]} <= {"gold", "silver", "team"}

    missing = run("queue", "top", "-n", "lead", *arguments)
    assert (missing.exit_code, missing.stderr.splitlines()[-1]) == (1, "Failed to queue top: queue lead not found")


def test_the_document_has_only_the_resources_that_are_named(tree: str, hierarchy: str) -> None:
    printed = run("queue", "top", "-f", tree, "--scheduler-conf", hierarchy, "-r", "cpu", "-o", "json").stdout

    document = json.loads(printed)
    assert document["kind"] == "QueueQuotaList"
    assert {one["resource"] for item in document["items"] for one in item["amounts"]} == {"cpu"}


def test_without_the_right_to_read_the_cluster_the_scheduler_is_asked(cluster: Cluster) -> None:
    """Given a queue below a queue that the answer does not list."""
    forbid(cluster)
    above = {"queue": "root", "resource": "cpu", "used": "5500m"}
    (item,) = QUOTAS["items"]
    answer = {**QUOTAS, "items": [{**item, "amounts": [*item["amounts"], above]}]}
    cluster.api.answer("GET", "/apis/visibility.*/queuequotas", answer)

    lines = cluster.prints("queue", "top").splitlines()

    assert [line.split() for line in lines[2:]] == [
        ["root"],
        ["│", "cpu", "5500m"],
        ["└─", "gold", "Open", "2", "1", "2"],
        ["cpu", "███████░░░", "3", "4"],
    ]


def test_a_missing_parent_or_a_cycle_loses_no_queue_and_ends() -> None:
    def item(name: str, parent: str) -> Raw:
        return {"queue": name, "parent": parent, "state": "Open", "weight": 1, "amounts": [], "jobs": {}}

    _, *lines = tree_blocks([item("a", "gone"), item("b", "c"), item("c", "b"), item("d", "c"), item("e", "e")])

    assert sorted(line.split("─ ")[-1].split()[0] for (line,) in lines) == ["a", "b", "c", "d", "e"]


def test_an_amount_that_is_no_quantity_is_shown_as_it_is() -> None:
    amounts = [{"queue": "a", "resource": "cpu", "used": "many", "capability": "4"}]

    assert tree_blocks([{"queue": "a", "amounts": amounts}])[2][0].split() == ["cpu", "░" * 10, "many", "4"]


def test_more_than_the_deserved_amount_is_yellow_and_more_than_the_capability_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.cli.text.colours_enabled", lambda: True)

    def bar(used: str) -> str:
        amounts = [{"queue": "a", "resource": "cpu", "used": used, "deserved": "2", "capability": "4"}]
        return rendered(tree_blocks([{"queue": "a", "amounts": amounts}])[2][0]).split()[1]

    assert bar("0") == "\x1b[32m░░░░▏░░░░░\x1b[0m"
    assert bar("3").startswith("\x1b[33m███████") and bar("5").startswith("\x1b[31m██████████")


def test_a_bar_leaves_out_what_does_not_count_against_the_capability() -> None:
    amounts = {"queue": "q", "resource": "cpu", "used": "32", "counted": "4", "capability": "16"}
    (*_, lines) = tree_blocks([{"queue": "q", "amounts": [amounts]}])
    assert lines[-1].split() == ["cpu", "██░░░░░░░░", "32", "16"]


def test_flags_are_added_before_words_that_are_no_flags() -> None:
    assert with_flags(["queue", "top"], "-W") == ["queue", "top", "-W"]
    assert with_flags(["queue", "top", "--", "-x"], "-W") == ["queue", "top", "-W", "--", "-x"]


def test_the_view_is_live_on_a_terminal_and_keeps_the_last_numbers_when_reading_fails(cluster: Cluster) -> None:
    holding(cluster)

    with terminal(cluster, "queue", "top", "--interval", "1") as shown:
        assert "default" in shown.shows(" ago\r", "Capability")
        cluster.holds(QUEUES, live(queue("default"), "u2"), live(queue("added"), "u9"))
        shown.shows("added")
        cluster.api.answer("GET", CLUSTER_PODS, {"message": "etcdserver: leader changed"}, status=500)
        shown.shows("added", "the last reading failed: list pods in all namespaces: etcdserver: leader changed")
        shown.press("q")
        shown.rest()

    assert shown.process.returncode == 0


def test_the_first_reading_must_succeed(cluster: Cluster) -> None:
    with terminal(cluster, "queue", "top") as shown:
        assert shown.process.stderr is not None
        said = shown.process.stderr.read()
        shown.process.wait()

    assert shown.process.returncode == 1
    assert said.startswith("Failed to queue top: list nodes: ") and "Failed to" not in said[10:]


def test_only_a_table_on_a_terminal_is_live(cluster: Cluster) -> None:
    assert "--watch draws a table on a terminal" in cluster.run("queue", "top", "--watch").stderr


def test_the_command_and_names_of_queues_are_completed(cluster: Cluster) -> None:
    cluster.holds(QUEUES, queue("gold"), queue("silver"))

    assert cluster.completes("queue", "top", "g") == ["gold"]
    assert "top" in cluster.completes("queue", "to")
