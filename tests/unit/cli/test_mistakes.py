"""Mistakes in manifests, as ``simulate`` and ``explain`` show them: every misspelt name is reported."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.builders import Raw, group, node, pod, queue
from tests.unit.cli.cluster import Cluster

CARDS = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "143771"}
CUT = '{"NVIDIA-H200": 4'


def written(path: Path, *objects: Raw) -> str:
    file = path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "400"})


def job(**spec: object) -> Raw:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    tasks = [{"name": "t", "replicas": 1, "template": {"spec": {"containers": containers}}}]
    meta = {"name": "j", "namespace": "default"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"tasks": tasks, **spec},
    }


@pytest.mark.parametrize("command", [("simulate",), ("explain", "pod", "p")])
def test_what_is_wrong_is_named_with_file_object_and_field(command: tuple[str, ...], tmp_path: Path) -> None:
    cut = queue("q")
    cut["metadata"]["annotations"] = {"volcano.sh/card.quota": CUT}
    path = written(
        tmp_path,
        node("n1", "8", CARDS),
        pod("p", "1", scheduler="vulcano-py", annotations={"volcano.sh/card.name": "NVIDIA-H20O"}),
        cut,
        job(minAvalable=1),
    )
    result = run(*command, "-f", path)
    assert result.exit_code == 0
    for part in (
        "document 2: Pod default/p: spec.schedulerName: 'vulcano-py' is not a name of this scheduler (volcano-py); did "
        "you mean 'volcano-py'?",
        "document 3: Queue q: metadata.annotations[volcano.sh/card.quota]: not JSON: expecting ',' delimiter (line 1, "
        "column 18); the text ends there",
        "document 4: Job default/j: spec.minAvalable: unknown field is ignored; did you mean 'minAvailable'?",
    ):
        assert f"warning: {path}, {part}\n" in result.stderr


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (pod("x", "1xc"), "Pod default/x: spec.containers[0].resources.requests[cpu]: not a quantity: '1x'"),
        (job(minAvailable=1) | {"apiVersion": "batch.volcano.sh/v1beta9"}, "no matches for kind 'Job' in version "),
    ],
)
def test_what_no_api_server_accepts_is_an_error(raw: Raw, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, node("n1"), pod("p"), raw)
    for command, code in (("simulate",), 2), (("explain", "pod", "p"), 1):
        result = run(*command, "-f", path)
        assert (result.exit_code, result.stdout) == (code, "")
        assert f"{path}, document 3: {problem}" in result.stderr


def test_mistakes_in_a_what_if_change_are_named(tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    change.write_text(yaml.safe_dump(pod("q", "1c+nvidia.com/gpuu=1")))
    result = run("simulate", "-f", written(tmp_path, node("n1", "8c+nvidia.com/gpu=8")), "--what-if", str(change))
    assert result.exit_code == 0
    assert "spec.containers[0].resources.requests[nvidia.com/gpuu]: no node has this resource; did you mean " in (
        result.stderr
    )


def reasons(result: Result) -> dict[str, str]:
    """The reasons in the section of waiting Pods, by Pod."""
    lines = result.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Waiting"))
    title, rows = lines[start + 1], lines[start + 2 : lines.index("", start)]
    return {row[title.index("PODS") : title.index("WHY")].strip(): row[title.index("WHY") :].strip() for row in rows}


def test_every_waiting_pod_has_a_reason(tmp_path: Path) -> None:
    absent = pod("absent", "1", "nowhere")
    gated = pod("gated", "1", gated=True)
    path = written(
        tmp_path,
        node("n1", "4c"),
        pod("large", "8c"),
        pod("other", "1", scheduler="vulcano-py"),
        pod("plain", "1", scheduler="default-scheduler"),
        absent,
        gated,
        group("lost", "no-such-queue"),
        pod("lost-0", "1", "lost"),
        job(schedulerName="vulcano-py"),
    )
    found = reasons(run("simulate", "-f", path))
    assert set(found) == {"large", "other", "plain", "absent", "gated", "lost-0", "j-t-0"}
    assert all(found.values()), found
    hint = "and this scheduler answers to volcano-py; did you mean 'volcano-py'?"
    assert found["other"] == found["j-t-0"] == f"its schedulerName is vulcano-py, {hint}"
    assert found["plain"] == "its schedulerName is default-scheduler, and this scheduler answers to volcano-py"
    assert found["absent"] == "its PodGroup default/nowhere does not exist"


def test_a_pod_group_that_waits_has_the_reason_of_its_pods(tmp_path: Path) -> None:
    output = run("simulate", "-f", written(tmp_path, node("n1"), job(schedulerName="vulcano-py"))).stdout
    (row,) = [line for line in output.splitlines() if "Inqueue" in line]
    assert row.endswith(
        "its schedulerName is vulcano-py, and this scheduler answers to volcano-py; did you mean 'volcano-py'?"
    )


def test_kinds_of_other_groups_with_the_name_of_ours_are_not_shown_as_ours(tmp_path: Path) -> None:
    others = [
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}},
        {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "others"}},
    ]
    result = run("simulate", "-f", written(tmp_path, node("n1"), *others))
    assert result.exit_code == 0, result.exception
    assert "PodGroups" not in result.stdout
    assert "others" not in result.stdout


def test_explain_names_the_mistakes_of_an_object_in_a_live_cluster(cluster: Cluster) -> None:
    def live(raw: Raw, uid: str) -> Raw:
        raw["metadata"] |= {"uid": uid, "resourceVersion": "1"}
        return raw

    cut = live(queue("default"), "u2")
    cut["metadata"]["annotations"] = {"volcano.sh/card.quota": CUT}
    cluster.holds("/api/v1/nodes", live(node("n1", "8", CARDS), "u1"))
    cluster.holds("/apis/scheduling.volcano.sh/v1beta1/queues", cut)
    cluster.holds("/apis/scheduling.volcano.sh/v1beta1/podgroups", live(group("g", phase="Inqueue"), "u3"))
    asked = pod("p", "9c", "g", annotations={"volcano.sh/card.name": "NVIDIA-H20O"})
    cluster.holds("/api/v1/pods", live(asked, "u4"), live(pod("q", "9c", scheduler="vulcano"), "u5"))
    result = cluster.run("explain", "pod", "p")
    assert result.exit_code == 0
    card, quota = "metadata.annotations[volcano.sh/card.name]", "metadata.annotations[volcano.sh/card.quota]"
    assert [line for line in result.stderr.splitlines() if "metadata.annotations" in line] == [
        f"warning: Pod default/p: {card}: no node has the card 'NVIDIA-H20O'; did you mean 'NVIDIA-H200'?",
        f"warning: Queue default: {quota}: not JSON: expecting ',' delimiter (line 1, column 18); the text ends there",
    ]
    assert "vulcano" not in result.stderr


def test_a_document_on_standard_output_is_not_mixed_with_warnings(tmp_path: Path) -> None:
    result = run("simulate", "-f", written(tmp_path, node("n1"), job(minAvalable=1)), "-o", "json")
    assert json.loads(result.stdout)["kind"] == "List"
    assert "minAvalable" in result.stderr


def test_a_config_map_that_is_cut_off_is_named_with_the_position_whether_or_not_a_plugin_reads_it(
    tmp_path: Path,
) -> None:
    def config_map(namespace: str, name: str, **data: str) -> Raw:
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    device_info = config_map("kube-system", "mindx-dl-deviceinfo-n1", DeviceInfoCfg='{"DeviceInfo": {"DeviceList": ')
    table = config_map("default", "rings-config-train", **{"hccl.json": '{"status": initializing}'})
    path = written(tmp_path, node("n1"), device_info, table, config_map("default", "mine", text="{"))
    result = run("simulate", "-f", path, "--scheduler-conf", str(conf))
    assert result.exit_code == 0 and "Warnings" not in result.stdout
    problem = "data[DeviceInfoCfg]: not JSON: expecting value (line 1, column 31); the text ends there"
    assert result.stderr.splitlines() == [
        f"warning: {path}, document 2: ConfigMap kube-system/mindx-dl-deviceinfo-n1: {problem}",
        f"warning: {path}, document 3: ConfigMap default/rings-config-train: data[hccl.json]: not JSON: expecting "
        "value (line 1, column 12)",
    ]
    items = json.loads(run("simulate", "-f", path, "--scheduler-conf", str(conf), "-o", "json").stdout)["items"]
    events = [e for e in items if e["kind"] == "Event" and e["involvedObject"]["kind"] == "ConfigMap"]
    assert f"{problem}; ignored" in [e["message"] for e in events]


def test_what_only_the_scheduler_and_the_controllers_see_is_in_events(tmp_path: Path) -> None:
    npus = node("n1", "8c+nvidia.com/gpu=8")
    npus["metadata"]["annotations"] = {"baseDeviceInfos": '{"Ascend910-0": {'}
    path = written(tmp_path, npus, pod("p", "1c+nvidia.com/gpuu=1"), job(schedulerName="vulcano-py"))
    items = json.loads(run("simulate", "-f", path, "-o", "json").stdout)["items"]
    events = {(e["involvedObject"]["kind"], e["involvedObject"]["name"], e["message"]) for e in items
              if e["kind"] == "Event" and e["type"] == "Warning" and e["reason"] == "Malformed"}  # fmt: skip
    assert events == {
        (
            "Job",
            "j",
            "spec.schedulerName: 'vulcano-py' is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?",
        ),
        (
            "Node",
            "n1",
            "metadata.annotations[baseDeviceInfos]: not JSON: expecting property name enclosed in double quotes "
            "(line 1, column 18); the text ends there; ignored",
        ),
        (
            "Pod",
            "p",
            "spec.containers[].resources[nvidia.com/gpuu]: no node has this resource; did you mean 'nvidia.com/gpu'?; "
            "the Pod waits until a node has it",
        ),
    }


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("volcano.sh/cooldown-time", "5x", "not a duration: '5x'"),
        ("volcano.sh/sla-waiting-time", "soon", "not a duration: 'soon'"),
        ("sla-waiting-time", "1", "not a duration: '1'"),
        ("volcano.sh/preemptable", "yes", "'yes' is neither true nor false, and counts as false"),
        ("sp-block", "0", "'0' is not a positive number"),
    ],
)
def test_values_of_annotations_are_checked_in_objects_and_templates(
    key: str, text: str, problem: str, tmp_path: Path
) -> None:
    grouped, own = group("g"), job()
    grouped["metadata"]["annotations"] = {key: text}
    own["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {key: text}}
    plain = pod("fine", "1", annotations={"volcano.sh/preemptable": "False", "volcano.sh/cooldown-time": "1h"})
    path = written(tmp_path, node("n1"), grouped, own, pod("p", "1", annotations={key: text}), plain)
    named = run("simulate", "-f", path).stderr.splitlines()
    assert {line.split(", ", 1)[1] for line in named if line.endswith(problem)} == {
        f"document 2: PodGroup default/g: metadata.annotations[{key}]: {problem}",
        f"document 3: Job default/j: spec.tasks[0].template.metadata.annotations[{key}]: {problem}",
        f"document 4: Pod default/p: metadata.annotations[{key}]: {problem}",
    }
    assert not [line for line in named if "default/fine" in line]


@pytest.mark.parametrize(("key", "text"), [("volcano.sh/cooldown-time", "5x"), ("volcano.sh/preemptable", "yes")])
def test_values_of_labels_that_stand_for_annotations_are_checked(key: str, text: str, tmp_path: Path) -> None:
    labelled, own = pod("p", "1"), job()
    labelled["metadata"]["labels"] = {key: text, "yes": "no"}
    own["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {key: text}}
    named = run("simulate", "-f", written(tmp_path, node("n1"), labelled, own)).stderr
    assert f"Pod default/p: metadata.labels[{key}]: " in named
    assert f"Job default/j: spec.tasks[0].template.metadata.labels[{key}]: " in named


def test_a_text_that_a_field_of_our_kinds_may_not_have_is_an_error(tmp_path: Path) -> None:
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
    right = {**flow, "spec": {"jobRetainPolicy": "retain", "flows": []}}
    assert run("simulate", "-f", written(tmp_path, node("n1"), right)).exit_code == 0
    path = written(tmp_path, node("n1"), {**flow, "spec": {"jobRetainPolicy": "retian", "flows": []}})
    result = run("simulate", "-f", path)
    problem = "unsupported value 'retian'; it may be retain, delete; did you mean 'retain'?"
    assert result.exit_code == 2
    assert f"{path}, document 2: JobFlow default/f: spec.jobRetainPolicy: {problem}" in result.stderr


def test_a_text_that_a_field_of_kubernetes_may_not_have_is_a_warning(tmp_path: Path) -> None:
    wrong, right = pod("wrong", "1"), pod("right", "1")
    for each, operator in (wrong, "Equls"), (right, "Equal"):
        each["spec"]["tolerations"] = [{"key": "a"}, {"key": "a", "operator": operator, "effect": ""}]
    result = run("simulate", "-f", written(tmp_path, node("n1"), right, wrong))
    assert result.exit_code == 0
    (warning,) = result.stderr.splitlines()
    assert "Pod default/wrong: spec.tolerations[1].operator: unsupported value 'Equls'; it may be" in warning
    assert warning.endswith("did you mean 'Equal'?")


def test_cards_that_a_rule_or_mindcluster_names_are_known(tmp_path: Path) -> None:
    configuration = tmp_path / "scheduler.conf"
    rule = {"resource": "example.com/slice-*", "name": "{example.com/model}/slice-{*}"}
    plugins = [{"name": "gang"}, {"name": "capacity-card", "arguments": {"cardNames": [rule]}}]
    configuration.write_text(yaml.safe_dump({"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}]}))
    slices, npus = "PPU-ZW810E/slice-2", "Ascend910B3"
    some = queue("q")
    some["metadata"]["annotations"] = {"volcano.sh/card.quota": json.dumps({slices: 1, npus: 1, "Ascend910B4": 1})}
    path = written(
        tmp_path,
        node("a", "8c+8Gi+example.com/slice-2=2", {"example.com/model": "PPU-ZW810E"}),
        node("b", "8c+8Gi+huawei.com/Ascend910=8", {"node.kubernetes.io/npu.chip.name": "910B3"}),
        some,
    )
    result = run("simulate", "-f", path, "--scheduler-conf", str(configuration))
    assert result.exit_code == 0
    (warning,) = [line for line in result.stderr.splitlines() if "has the card" in line]
    assert "no node has the card 'Ascend910B4'" in warning


def test_a_percentage_of_gpu_memory_is_no_mistake(tmp_path: Path) -> None:
    slices = "volcano.sh/vgpu-number=1+volcano.sh/vgpu-memory-percentage=50"
    path = written(
        tmp_path, node("a", "8c+volcano.sh/vgpu-number=4+volcano.sh/vgpu-memory=4"), pod("p", f"1c+{slices}")
    )
    assert "percentage" not in run("simulate", "-f", path).stderr
