"""``volcano-py simulate``: input, defaults, output, and errors, through the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.api.names import QUEUE_ALLOCATION_GATE
from scheduler.cli.main import main
from tests.builders import Raw, group, node, pod, pods, queue
from tests.unit.explain.test_workloads import waiting_instance

PLAIN = "actions: enqueue, allocate, backfill\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n"


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "scheduler.conf"
    path.write_text(PLAIN)
    return str(path)


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=stdin)


def written(path: Path, *objects: Raw) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def listing(result: Result) -> list[Raw]:
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    items: list[Raw] = document["items"]
    return items


def simulated(objects: list[Raw], conf: str, tmp_path: Path, *options: str) -> list[Raw]:
    path = written(tmp_path / "input.yaml", *objects)
    return listing(run("-f", path, "--scheduler-conf", conf, "-o", "json", *options))


def find(items: list[Raw], kind: str, name: str) -> Raw:
    return next(o for o in items if o["kind"] == kind and o["metadata"]["name"] == name)


def nodes_of(items: list[Raw]) -> dict[str, str | None]:
    return {o["metadata"]["name"]: o["spec"].get("nodeName") for o in items if o["kind"] == "Pod"}


def refused(result: Result, *parts: str) -> None:
    """Asserts that the input is refused: exit code 2, every part named on stderr, nothing on stdout."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert result.stdout == ""
    for part in parts:
        assert part in result.stderr


SMALL = [node("n1"), group("a"), pod("p", "1c", "a")]


# --- where manifests come from ---
def test_a_file_may_have_several_documents(conf: str, tmp_path: Path) -> None:
    assert nodes_of(simulated(SMALL, conf, tmp_path)) == {"p": "n1"}


def test_files_and_directories_are_read_in_sorted_order(conf: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "b.yml", group("a"))
    (folder / "c.json").write_text(json.dumps(pod("p", "1c", "a")))
    written(folder / "a.yaml", node("n1"))
    (folder / "ignored.txt").write_text("not: [yaml")
    other = written(tmp_path / "other.yaml", pod("q", "1c", "a"))
    items = listing(run("-f", str(folder), "-f", other, "--scheduler-conf", conf, "-o", "json"))
    assert nodes_of(items) == {"p": "n1", "q": "n1"}
    created = [
        find(items, k, n)["metadata"]["creationTimestamp"]
        for k, n in (("Node", "n1"), ("PodGroup", "a"), ("Pod", "p"), ("Pod", "q"))
    ]
    assert created == [f"2020-01-01T12:00:0{i}Z" for i in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    "text", [yaml.safe_dump_all(SMALL), json.dumps({"apiVersion": "v1", "kind": "List", "items": SMALL})]
)
def test_standard_input_may_be_yaml_or_json(text: str, conf: str) -> None:
    assert nodes_of(listing(run("-f", "-", "--scheduler-conf", conf, "-o", "json", stdin=text))) == {"p": "n1"}


def test_lists_are_unpacked_also_nested_and_typed_ones(conf: str) -> None:
    inner = {"apiVersion": "v1", "kind": "PodList", "items": [pod("p", "1c", "a")]}
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [node("n1"), group("a"), inner]})
    assert nodes_of(listing(run("-f", "-", "--scheduler-conf", conf, "-o", "json", stdin=text))) == {"p": "n1"}


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n", "apiVersion: v1\nkind: List\nitems: []\n"])
def test_empty_input_is_an_empty_cluster_with_defaults(text: str, conf: str) -> None:
    items = listing(run("-f", "-", "--scheduler-conf", conf, "-o", "json", stdin=text))
    assert {(o["kind"], o["metadata"]["name"]) for o in items} == {
        ("Namespace", "default"), ("Queue", "default"), ("Queue", "root"),
    }  # fmt: skip


# --- what objects become ---
def test_a_default_queue_and_namespace_exist_unless_given(conf: str, tmp_path: Path) -> None:
    items = simulated(SMALL, conf, tmp_path)
    assert find(items, "Queue", "default")["spec"]["weight"] == 1
    assert find(items, "Namespace", "default")
    items = simulated([queue("default", 7)], conf, tmp_path)
    assert find(items, "Queue", "default")["spec"]["weight"] == 7
    assert sum(o["kind"] == "Queue" and o["metadata"]["name"] == "default" for o in items) == 1


def test_namespaced_objects_without_a_namespace_are_in_the_default_one(conf: str, tmp_path: Path) -> None:
    bare = pod("p", "1c", "a")
    del bare["metadata"]["namespace"]
    items = simulated([node("n1"), group("a"), bare], conf, tmp_path)
    assert find(items, "Pod", "p")["metadata"]["namespace"] == "default" and nodes_of(items) == {"p": "n1"}


def test_default_creation_times_are_a_second_apart_and_follow_given_ones(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), group("a"), group("b"), group("c")]
    objects[1]["metadata"]["creationTimestamp"] = "2024-05-01T12:00:00Z"
    objects[3]["metadata"]["creationTimestamp"] = None
    items = simulated(objects, conf, tmp_path)
    stamps = [find(items, o["kind"], o["metadata"]["name"])["metadata"]["creationTimestamp"] for o in objects]
    assert stamps == ["2020-01-01T12:00:01Z", "2024-05-01T12:00:00Z", "2024-05-01T12:00:01Z", "2024-05-01T12:00:02Z"]


def test_queues_have_the_same_creation_time_so_that_the_name_decides(conf: str, tmp_path: Path) -> None:
    objects = [node("n1", "1c"), queue("zoo"), queue("ape")]
    for name in ("zoo", "ape"):
        objects += [group(name, name), pod(f"{name}-0", "1c", name)]
    assert nodes_of(simulated(objects, conf, tmp_path)) == {"ape-0": "n1", "zoo-0": None}


def test_uids_depend_on_kind_namespace_and_name_only(conf: str, tmp_path: Path) -> None:
    first = simulated(SMALL, conf, tmp_path)
    second = simulated([group("z"), *reversed(SMALL)], conf, tmp_path)
    for kind, name in (("Node", "n1"), ("PodGroup", "a"), ("Pod", "p")):
        assert find(first, kind, name)["metadata"]["uid"] == find(second, kind, name)["metadata"]["uid"]
    uids = [o["metadata"]["uid"] for o in first if o["kind"] != "Event"]
    assert len(set(uids)) == len(uids)


def test_a_pod_with_a_node_name_counts_as_bound_there(conf: str, tmp_path: Path) -> None:
    objects = [
        node("n1", "2c"),
        group("a"),
        pod("held", "2c", on="n1", phase="Pending", scheduler="other"),
        pod("p", "1c", "a"),
    ]
    items = simulated(objects, conf, tmp_path, "--kubelet", "none")
    assert nodes_of(items) == {"held": "n1", "p": None}
    assert find(items, "Pod", "held")["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("phase", "free"), [("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_keeps_its_phase_and_a_finished_one_holds_nothing(
    phase: str, free: bool, conf: str, tmp_path: Path
) -> None:
    objects = [node("n1", "2c"), group("a"), pod("held", "2c", on="n1", phase=phase), pod("p", "1c", "a")]
    items = simulated(objects, conf, tmp_path)
    assert find(items, "Pod", "held")["status"]["phase"] == phase
    assert (nodes_of(items)["p"] == "n1") is free


def test_a_pod_with_a_deletion_time_is_releasing(conf: str, tmp_path: Path) -> None:
    objects = [node("n1", "2c"), group("a"), pod("old", "2c", on="n1", deleting=True), pod("p", "1c", "a")]
    items = simulated(objects, conf, tmp_path, "--kubelet", "none")
    assert nodes_of(items) == {"old": "n1", "p": None}
    message = find(items, "Pod", "p")["status"]["conditions"][0]["message"]
    assert "can possibly be assigned to n1, once resource is released" in message


def test_pods_of_other_schedulers_are_left_alone(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), group("a"), pod("p", "1c", "a", scheduler="volcano"), pod("q", "1c", "a", scheduler="mine")]
    assert nodes_of(simulated(objects, conf, tmp_path)) == {"p": None, "q": None}
    names = ("--scheduler-name", "volcano", "--scheduler-name", "mine")
    assert nodes_of(simulated(objects, conf, tmp_path, *names)) == {"p": "n1", "q": "n1"}


def test_null_fields_count_as_absent(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), group("a"), pod("p", "1c", "a")]
    objects[2]["spec"]["nodeName"] = None
    objects[2]["status"] = {"conditions": None, "phase": None}
    objects[2]["metadata"]["labels"] = None
    objects[1]["status"] = None
    objects[0]["spec"] = None
    assert nodes_of(simulated(objects, conf, tmp_path)) == {"p": "n1"}


def test_an_unknown_kind_causes_a_warning_and_is_kept(conf: str, tmp_path: Path) -> None:
    strange = {
        "apiVersion": "example.com/v1",
        "kind": "Strange",
        "metadata": {"name": "s"},
        "spec": {"x": [1, {"y": "z"}]},
    }
    path = written(tmp_path / "in.yaml", *SMALL, strange)
    result = run("-f", path, "--scheduler-conf", conf, "-o", "json")
    assert find(listing(result), "Strange", "s")["spec"] == strange["spec"]
    assert "warning" in result.stderr and "document 4" in result.stderr and "Strange" in result.stderr


# --- cycles and the kubelet ---
def test_with_a_kubelet_bound_pods_run(conf: str, tmp_path: Path) -> None:
    items = simulated(SMALL, conf, tmp_path, "--kubelet", "run")
    assert find(items, "Pod", "p")["status"]["phase"] == "Running"
    assert find(items, "PodGroup", "a")["status"] | {"conditions": []} == {
        "phase": "Running",
        "running": 1,
        "conditions": [],
    }


def test_without_a_kubelet_bound_pods_stay_pending_on_their_node(conf: str, tmp_path: Path) -> None:
    found = find(simulated(SMALL, conf, tmp_path, "--kubelet", "none"), "Pod", "p")
    assert (found["status"]["phase"], found["spec"]["nodeName"]) == ("Pending", "n1")
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_cycles_is_the_exact_number_of_cycles(conf: str, tmp_path: Path) -> None:
    phases = [
        find(simulated(SMALL, conf, tmp_path, "--cycles", str(n)), "PodGroup", "a")["status"]["phase"] for n in (1, 2)
    ]
    assert phases == ["Inqueue", "Running"]
    path = written(tmp_path / "in.yaml", *SMALL)
    assert "7 cycles" in run("-f", path, "--scheduler-conf", conf, "--cycles", "7").stdout
    assert "2 cycles" in run("-f", path, "--scheduler-conf", conf, "--cycles", "2").stdout
    refused(run("-f", path, "--cycles", "0"))
    refused(run("-f", path, "--cycles", "many"))


# --- output ---
def test_items_are_sorted_by_kind_namespace_and_name(conf: str, tmp_path: Path) -> None:
    items = simulated([node("z"), node("b"), group("b"), group("a"), *pods("p", 12, "1c", "a")], conf, tmp_path)
    keys = [(o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"]) for o in items]
    assert keys == sorted(keys)


def test_repeated_events_are_counted(conf: str, tmp_path: Path) -> None:
    items = simulated([*SMALL, pod("big", "99c", "a")], conf, tmp_path)
    events = [o for o in items if o["kind"] == "Event"]
    assert events
    for event in events:
        assert event["apiVersion"] == "v1" and event["count"] >= 1
        assert {"involvedObject", "type", "reason", "message"} <= event.keys()
    scheduled = next(e for e in events if e["reason"] == "Scheduled" and e["involvedObject"]["kind"] == "Pod")
    assert scheduled["message"] == "Successfully assigned default/p to n1"
    assert scheduled["involvedObject"] | {"uid": ""} == {
        "apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "",
    }  # fmt: skip
    assert scheduled["type"] == "Normal" and scheduled["count"] == 1


def test_yaml_and_json_have_the_same_content(conf: str, tmp_path: Path) -> None:
    path = written(tmp_path / "in.yaml", *SMALL)
    as_json = run("-f", path, "--scheduler-conf", conf, "-o", "json").stdout
    as_yaml = run("-f", path, "--scheduler-conf", conf, "-o", "yaml").stdout
    assert json.loads(as_json) == yaml.safe_load(as_yaml.replace("Timestamp: ", "Timestamp: !!str "))


@pytest.mark.parametrize(
    "value",
    [
        1e16,
        -1e-5,
        0.00001234,
        0.5,
        2**70,
        -(2**63),
        True,
        "1e5",
        '\x00\x1f\t"\\/<>&',
        "é\u20ac",
        "\U0001f600",
    ],
)
def test_values_are_encoded_like_json_dumps(value: object, tmp_path: Path) -> None:
    widget = {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "m"}, "data": [value, {"key": value}]}
    (tmp_path / "m.json").write_text(json.dumps(widget))
    result = run("-f", str(tmp_path / "m.json"), "-o", "json")
    assert json.dumps(json.loads(result.stdout), indent=1) + "\n" == result.stdout
    assert find(listing(result), "Widget", "m")["data"] == [value, {"key": value}]


def test_a_table_shows_brackets_of_messages_unchanged(conf: str, tmp_path: Path) -> None:
    objects = [node("n[/bold]"), group("[red]a"), pod("p[x]", "1c", "[red]a"), pod("q[/]", "[y]=9", "[red]a")]
    result = run("-f", written(tmp_path / "in.yaml", *objects), "--scheduler-conf", conf)
    assert result.exit_code == 0, result.exception
    assert "n[/bold]" in result.stdout and "p[x]" in result.stdout and "[red]a" in result.stdout


def test_a_table_shows_memory_of_queues_with_units(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), queue("q", capability="4194304Ki"), group("a", queue="q")]
    path = written(tmp_path / "input.yaml", *objects, pod("p", "1c+1Gi", "a"))

    lines = run("-f", path, "--scheduler-conf", conf).stdout.splitlines()

    assert ["memory", "1Gi", "4Gi"] in [line.split() for line in lines]


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes_whatever_the_hash_seed(conf: str, tmp_path: Path) -> None:
    objects = [
        node("n1"),
        node("n2"),
        queue("q", 2),
        group("a", "q", 2),
        *pods("p", 5, "1c", "a"),
        group("b"),
        *pods("r", 5, "1c", "b"),
    ]
    path = written(tmp_path / "in.yaml", *objects)
    command = [sys.executable, "-m", "scheduler.cli.main", "simulate", "-f", path, "-o", "json"]
    outputs = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# --- bad input ---
def meta(kind: str, metadata: str) -> str:
    """A document of a core kind with the metadata written."""
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {metadata}\n"


def own(spec: str) -> str:
    """A document of an unknown kind with the spec written."""
    return f"apiVersion: example.com/v1\nkind: Own\nmetadata: {{name: a}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (meta("Node", "{name: a}") + "---\na: [\n", ["document 2", "line 6"]),
        (meta("Pod", "{}"), ["document 1", "metadata.name"]),
        ("apiVersion: v1\nkind: Pod\n", ["document 1", "metadata.name"]),
        (meta("Pod", "{name: 5}"), ["document 1", "metadata.name"]),
        ("kind: Pod\nmetadata: {name: a}\n", ["document 1", "apiVersion"]),
        ("apiVersion: v1\nkind: [Pod]\nmetadata: {name: a}\n", ["document 1", "kind"]),
        ("- a\n", ["document 1", "expected an object, got a list"]),
        ("just text", ["document 1", "expected an object, got a string"]),
        (meta("Pod", "{name: a, labels: [x]}"), ["document 1", "metadata.labels"]),
        (meta("Pod", "{name: a, labels: {x: 1}}"), ["document 1", "metadata.labels"]),
        (meta("Secret", "{name: a, namespace: 5}"), ["document 1", "metadata.namespace"]),
        (meta("Pod", "{name: a, creationTimestamp: yesterday}"), ["document 1", "creationTimestamp"]),
        (meta("Pod", "{name: a, creationTimestamp: 9999-12-31T23:59:59Z}"), ["creationTimestamp"]),
        (meta("Pod", "{name: a, creationTimestamp: 0001-01-01T00:00:00}"), ["creationTimestamp"]),
        (meta("Pod", "{name: a}") + "spec: {containers: {}}\n", ["document 1", "spec.containers"]),
        (
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}]\n",
            ["document 1, items[0]", "metadata.name"],
        ),
        ("apiVersion: v1\nkind: List\nitems: &a [{apiVersion: v1, kind: List, items: *a}]\n", ["document 1", "nested"]),
        (own("&a {x: *a}"), ["document 1", "nested"]),
        (own("{x: .nan}"), ["document 1", "spec.x"]),
        (own("{1: x}"), ["document 1", "spec"]),
        (own("{x: !!binary aGk=}"), ["document 1", "spec.x"]),
        (meta("Node", "{name: a}") + "---\n" + meta("Node", "{name: a}"), ["document 2", "given before"]),
        (
            meta("Node", "{name: a, uid: u}") + "---\n" + meta("Node", "{name: b, uid: u}"),
            ["document 2", "metadata.uid"],
        ),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"', ["document 1"]),
        ("a: \x01", ["document 1"]),
        ("a: " + "[" * 3000, ["document 1"]),
    ],
)
def test_a_malformed_document_is_refused_with_file_document_and_field(
    text: str, parts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    refused(run("-f", str(path), "-o", "json"), "bad.yaml", *parts)


def bad_pod(quantity: Any) -> Raw:
    made = pod("p", "1c", "a")
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = quantity
    return made


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (bad_pod("-1"), "spec.containers"),
        (bad_pod("lots"), "spec.containers"),
        (bad_pod(True), "spec.containers[0].resources.requests"),
        (bad_pod([1]), "spec.containers[0].resources.requests"),
        (node("n", "-4c"), "status.allocatable[cpu]"),
        (node("n", "4Gib"), "status.allocatable[memory]"),
        (group("g", minimum=-1), "spec.minMember"),
        (group("g", asks="-1c"), "spec.minResources"),
        (queue("q", -1), "spec.weight"),
        (queue("q", capability="xc"), "spec"),
    ],
)
def test_an_object_that_the_api_server_would_refuse_is_refused(bad: Raw, field: str, tmp_path: Path) -> None:
    path = written(tmp_path / "bad.yaml", node("first"), bad)
    refused(run("-f", path, "-o", "json"), "bad.yaml", "document 2", field)


def test_huge_quantities_fit_nowhere_and_cause_no_error(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), node("n2", "9999999999999999c+9999Ei"), group("a"), bad_pod("9" * 300), pod("q", "3c", "a")]
    assert nodes_of(simulated(objects, conf, tmp_path)) == {"p": "n2", "q": "n1"}


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    refused(run("-f", str(tmp_path / "none.yaml")), "none.yaml")
    (tmp_path / "empty").mkdir()
    refused(run("-f", str(tmp_path / "empty")), "empty")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00a: b")
    refused(run("-f", str(tmp_path / "binary.yaml")), "binary.yaml")
    refused(run("-f", "-", stdin=b"\xff\xfe\x00"), "standard input")
    refused(run())


@pytest.mark.parametrize(
    ("text", "parts"),
    [("actions: [\n", [":2: "]), ("", ["the file"]), ("actions: fly\n", ["failed to find Action 'fly'"])],
)
def test_a_bad_configuration_is_refused_with_file_and_reason(text: str, parts: list[str], tmp_path: Path) -> None:
    conf = tmp_path / "bad.conf"
    conf.write_text(text)
    path = written(tmp_path / "in.yaml", *SMALL)
    refused(run("-f", path, "--scheduler-conf", str(conf), "-o", "json"), "bad.conf", *parts)
    refused(run("-f", path, "--scheduler-conf", str(tmp_path / "none.conf")), "none.conf")


# --- strange but legal ---
def test_a_pod_group_in_a_missing_queue_waits_with_a_reason(conf: str, tmp_path: Path) -> None:
    items = simulated(
        [node("n1"), group("a", "nowhere"), pod("p", "1c", "a"), group("b"), pod("q", "1c", "b")], conf, tmp_path
    )
    assert nodes_of(items) == {"p": None, "q": "n1"}
    (condition,) = find(items, "PodGroup", "a")["status"]["conditions"]
    assert condition["message"] == "queue nowhere does not exist"
    assert any(o["kind"] == "Event" and o["message"] == condition["message"] for o in items)


def test_a_malformed_annotation_causes_a_warning_and_the_pod_is_scheduled(conf: str, tmp_path: Path) -> None:
    broken = {"volcano.sh/task-priority": "high", "volcano.sh/preemptable": "perhaps", "huawei.com/Ascend910": "?"}
    items = simulated([node("n1"), group("a"), pod("p", "1c", "a", annotations=broken)], conf, tmp_path)
    assert nodes_of(items) == {"p": "n1"}
    (event,) = [o for o in items if o["kind"] == "Event" and o["reason"] == "Malformed"]
    assert event["type"] == "Warning" and event["involvedObject"]["name"] == "p"
    assert "volcano.sh/task-priority" in event["message"] and "'high' is not an integer" in event["message"]


def test_a_pod_without_a_group_gets_one_and_a_pod_of_a_missing_group_waits(conf: str, tmp_path: Path) -> None:
    items = simulated([node("n1"), pod("p", "1c"), pod("q", "1c", "missing")], conf, tmp_path)
    assert nodes_of(items) == {"p": "n1", "q": None}
    (made,) = [o for o in items if o["kind"] == "PodGroup"]
    assert made["metadata"]["name"] == f"podgroup-{find(items, 'Pod', 'p')['metadata']['uid']}"


def test_a_best_effort_pod_that_fits_nowhere_does_not_stop_others(conf: str, tmp_path: Path) -> None:
    objects = [node("n1"), group("a"), pod("gated", "", "a", gated=True), group("b"), pod("q", "", "b")]
    assert nodes_of(simulated(objects, conf, tmp_path)) == {"gated": None, "q": "n1"}
    assert nodes_of(simulated([group("b"), pod("q", "", "b")], conf, tmp_path)) == {"q": None}


def test_help_names_every_option() -> None:
    text = run("--help").stdout
    for option in ("--filename", "--scheduler-conf", "--scheduler-name", "--cycles", "--kubelet", "--output"):
        assert option in text


def test_a_vcjob_gets_its_pod_group_pods_and_status(conf: str, tmp_path: Path) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    task = {"replicas": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [task], "plugins": {"env": []}},
    }
    items = simulated([node("n1"), job], conf, tmp_path)
    assert nodes_of(items) == {"train-default0-0": "n1", "train-default0-1": "n1"}
    (made,) = [o for o in items if o["kind"] == "PodGroup"]
    assert made["spec"]["minMember"] == 2 and made["status"]["phase"] == "Running"
    status = find(items, "Job", "train")["status"]
    assert (status["state"]["phase"], status["running"]) == ("Running", 2)
    assert {e["name"] for e in find(items, "Pod", "train-default0-0")["spec"]["containers"][0]["env"]} == {
        "VC_TASK_INDEX",
        "VK_TASK_INDEX",
    }


def test_a_vcjob_that_admission_refuses_is_bad_input(conf: str, tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"queue": "nowhere", "tasks": [{"replicas": 1, "template": {"spec": {"containers": []}}}]},
    }
    path = written(tmp_path / "input.yaml", node("n1"), job)
    refused(run("-f", path, "--scheduler-conf", conf), "Job default/train", "unable to find job queue")


def test_with_the_feature_gate_pods_are_gated_until_their_queue_has_room(conf: str, tmp_path: Path) -> None:
    Path(conf).write_text(PLAIN.replace("{name: gang}", "{name: gang}, {name: capacity}"))
    template = pod("", "1c", annotations={QUEUE_ALLOCATION_GATE: "true"})
    template["spec"]["containers"][0]["image"] = "work"
    tasks = [
        {"name": "worker", "replicas": 3, "template": {"metadata": template["metadata"], "spec": template["spec"]}}
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"queue": "q", "minAvailable": 1, "schedulerName": "volcano-py", "tasks": tasks},
    }
    objects = [node("n1"), queue("q", capability="2c"), job]
    for options, gated in (((), []), (("--feature-gates=SchedulingGatesQueueAdmission=true",), ["train-worker-2"])):
        items = simulated(objects, conf, tmp_path, *options)
        assert [
            o["metadata"]["name"] for o in items if o["kind"] == "Pod" and o["spec"].get("schedulingGates")
        ] == gated
        assert nodes_of(items) == {"train-worker-0": "n1", "train-worker-1": "n1", "train-worker-2": None}


@pytest.mark.parametrize("text", ["ünïcode 😀 \u2028", 'quotes " and \\ and \x7f and \t'])
def test_json_is_printed_like_json_dumps(text: str, conf: str, tmp_path: Path) -> None:
    thing = {
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "default"},
        "data": {"text": text, "numbers": [1, -0.5, 1e16, 2**70], "empty": [{}, [], ""], "deep": [[{"a": [True]}]]},
    }  # fmt: skip
    path = tmp_path / "thing.json"
    path.write_text(json.dumps(thing))
    result = run("-f", str(path), "--scheduler-conf", conf, "-o", "json")
    assert result.stdout == json.dumps(json.loads(result.stdout), indent=1) + "\n"
    assert thing["data"] in [item.get("data") for item in listing(result)]


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_half_a_surrogate_pair_is_read_as_the_replacement_character(output: str, conf: str, tmp_path: Path) -> None:
    odd = pod("p", "1c", labels={"half": "\ud800"}, annotations={"\udc00": "b"})
    odd["spec"]["containers"][0]["name"] = "c\ud83d"
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n\ud800"), odd]}))
    result = run("-f", str(path), "--scheduler-conf", conf, "-o", output)
    assert result.exit_code == 0, result.exception
    if output == "json":
        assert find(listing(result), "Pod", "p")["metadata"]["labels"] == {"half": "\ufffd"}
        assert find(listing(result), "Node", "n\ufffd")


def test_yaml_has_no_aliases_for_parts_that_pods_share(conf: str, tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "a:1", "env": [{"name": "A", "value": "b"}]}]}}
    meta = {"name": "web", "namespace": "default"}
    sets = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta,
        "spec": {"replicas": 2, "template": template},
    }
    result = run("-f", written(tmp_path / "c.yaml", sets), "--scheduler-conf", conf, "-o", "yaml")
    assert result.stdout.count("image: a:1") == 3
    assert "&id" not in result.stdout


def test_yaml_quotes_strings_that_other_readers_take_for_numbers(conf: str, tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    path = written(tmp_path / "c.yaml", {**config, "data": {"commit": "12e4567"}})

    assert 'commit: "12e4567"' in run("-f", path, "--scheduler-conf", conf, "-o", "yaml").stdout


def test_the_table_of_pod_groups_says_why_a_job_creates_no_pods(conf: str, tmp_path: Path) -> None:
    result = run("-f", written(tmp_path / "input.yaml", *waiting_instance()), "--scheduler-conf", conf)
    assert result.exit_code == 0, result.output
    assert "job default/train can't create pod, try later: ConfigMap r, which the label" in result.stdout
