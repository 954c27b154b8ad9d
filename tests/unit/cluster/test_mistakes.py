"""Likely mistakes in manifests: each is named with its file, object and field."""

from pathlib import Path

import pytest
import yaml

from scheduler.api.kinds import find_kind
from scheduler.cluster.manifests import Manifest, ManifestError, parse_manifests
from scheduler.cluster.mistakes import field_problems, manifest_warnings
from tests.builders import Raw, node, pod, queue

OURS = ("volcano-py",)
CARDS = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "143771"}


def gpu_node() -> Raw:
    raw = node("n1", "8")
    raw["metadata"]["labels"] = {**(raw["metadata"].get("labels") or {}), **CARDS}
    raw["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    return raw


def read(*objects: Raw) -> list[Manifest]:
    return list(parse_manifests(yaml.safe_dump_all(objects).encode(), "x.yaml"))


def warnings(*objects: Raw, schedulers: tuple[str, ...] = OURS) -> list[str]:
    return manifest_warnings(read(*objects), schedulers)


def template(requests: Raw | None = None, **spec: object) -> Raw:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"spec": {"containers": [container], **spec}}


def vcjob(tasks: list[Raw] | None = None, **spec: object) -> Raw:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"tasks": tasks or [{"name": "t", "replicas": 1, "template": template()}], **spec},
    }


def workload(api_version: str, kind: str, spec: Raw) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}


# --- fields ---
def test_an_unknown_field_is_named_with_the_one_that_was_meant() -> None:
    tasks = [{"name": "t", "replcias": 2, "template": template(nodeSelecter={"a": "b"})}]
    place, text = "x.yaml, document 1: Job team/train: spec", "unknown field is ignored; did you mean"
    assert sorted(warnings(vcjob(tasks, minAvalable=1))) == [
        f"{place}.minAvalable: {text} 'minAvailable'?",
        f"{place}.tasks[0].replcias: {text} 'replicas'?",
        f"{place}.tasks[0].template.spec.nodeSelecter: {text} 'nodeSelector'?",
    ]


@pytest.mark.parametrize(
    ("raw", "field", "meant"),
    [
        ({**queue("q"), "spec": {"wieght": 2}}, "spec.wieght", "weight"),
        (workload("scheduling.volcano.sh/v1beta1", "PodGroup", {"minMembers": 2}), "spec.minMembers", "minMember"),
        (workload("mindxdl.gitee.com/v1", "AscendJob", {"replicaSpec": {}}), "spec.replicaSpec", "replicaSpecs"),
        (workload("flow.volcano.sh/v1alpha1", "JobFlow", {"flow": []}), "spec.flow", "flows"),
        (workload("batch.volcano.sh/v1alpha1", "CronJob", {"shedule": "* * * * *"}), "spec.shedule", "schedule"),
        (workload("topology.volcano.sh/v1alpha1", "HyperNode", {"teir": 1}), "spec.teir", "tier"),
        (workload("apps/v1", "Deployment", {"replica": 1}), "spec.replica", "replicas"),
        (workload("v1", "PersistentVolumeClaim", {"storageClass": "s"}), "spec.storageClass", "storageClassName"),
        ({**node("n"), "status": {"allocateable": {}}}, "status.allocateable", "allocatable"),
        ({**queue("q"), "sepc": {}}, "sepc", "spec"),
        ({**queue("q"), "metadata": {"name": "q", "lables": {}}}, "metadata.lables", "labels"),
    ],
)  # fmt: skip
def test_fields_of_every_kind_are_known(raw: Raw, field: str, meant: str) -> None:
    (found,) = warnings(raw)
    assert found.endswith(f"{field}: unknown field is ignored; did you mean {meant!r}?")


def test_no_field_that_the_definitions_have_is_unknown() -> None:
    path = Path(__file__).parents[2] / "integration" / "every_field.yaml"
    for raw in yaml.safe_load(path.read_text(encoding="utf-8"))["items"]:
        kind = find_kind(raw["apiVersion"], raw["kind"])
        assert kind is not None
        assert list(field_problems(kind, raw)) == []


def test_an_object_of_a_cluster_has_the_fields_that_its_api_server_knows() -> None:
    raw = vcjob(minAvalable=1)
    raw["metadata"]["uid"] = "8f1"
    assert warnings(raw) == []


def test_an_object_with_many_unknown_fields_is_not_reported_without_end() -> None:
    raw = {**queue("q"), "spec": {f"x{i}": i for i in range(1000)}}
    assert len(warnings(raw)) == 10


# --- quantities ---
@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (pod("p", "1xc"), "spec.containers[0].resources.requests[cpu]"),
        (
            vcjob([{"name": "t", "template": template({"memory": "4Gib"})}]),
            "spec.tasks[0].template.spec.containers[0].resources.requests[memory]",
        ),
        (
            workload("apps/v1", "StatefulSet", {"template": template({"cpu": "one"})}),
            "spec.template.spec.containers[0].resources.requests[cpu]",
        ),
        (
            workload(
                "mindxdl.gitee.com/v1", "AscendJob", {"replicaSpecs": {"Master": {"template": template({"cpu": "1x"})}}}
            ),
            "spec.replicaSpecs[Master].template.spec.containers[0].resources.requests[cpu]",
        ),
        ({**queue("q"), "spec": {"guarantee": {"resource": {"cpu": "1x"}}}}, "spec.guarantee.resource[cpu]"),
        (workload("v1", "ResourceQuota", {"hard": {"requests.cpu": "1 0"}}), "spec.hard[requests.cpu]"),
        ({**node("n"), "status": {"allocatable": {"cpu": "8cores"}}}, "status.allocatable[cpu]"),
    ],
)
def test_a_quantity_that_cannot_be_parsed_is_an_error(raw: Raw, field: str) -> None:
    with pytest.raises(ManifestError, match="not a quantity") as caught:
        warnings(raw)
    assert str(caught.value).startswith("x.yaml, document 1: ")
    assert f": {field}: not a quantity: " in str(caught.value)


# --- kinds and versions ---
@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        ("batch.volcano.sh/v1beta9", "Job", "batch.volcano.sh/v1alpha1"),
        ("scheduling.volcano.sh/v1", "Queue", "scheduling.volcano.sh/v1beta1"),
        ("v2", "Pod", "v1"),
        ("apps/v1beta9", "Deployment", "apps/v1"),
    ],
)
def test_a_version_that_its_kind_does_not_have_is_an_error(api_version: str, kind: str, meant: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(workload(api_version, kind, {}))
    text = f"x.yaml, document 1: no matches for kind {kind!r} in version {api_version!r}; did you mean {meant!r}?"
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("api_version", "kind"), [("policy/v1beta1", "PodDisruptionBudget"), ("apps/v1beta2", "Deployment")]
)
def test_earlier_versions_of_kubernetes_kinds_are_read(api_version: str, kind: str) -> None:
    assert warnings(workload(api_version, kind, {})) == []


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "ServiceAccount"), ("rbac.authorization.k8s.io/v1", "RoleBinding"), ("networking.k8s.io/v1", "Ingress")],
)
def test_kinds_that_stand_beside_jobs_without_an_effect_are_not_named(api_version: str, kind: str) -> None:
    assert warnings(workload(api_version, kind, {})) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("batch.volcano.sh/v1alpha1", "Jobb", "; did you mean Job of batch.volcano.sh/v1alpha1?"),
        ("scheduling.volcan.sh/v1beta1", "Queue", "; did you mean Queue of scheduling.volcano.sh/v1beta1?"),
        ("example.com/v1", "Thing", ""),
    ],
)
def test_an_unknown_kind_is_named_with_its_group(api_version: str, kind: str, hint: str) -> None:
    text = f"x.yaml, document 1: unknown kind {kind} of {api_version} is carried through{hint}"
    assert warnings(workload(api_version, kind, {})) == [text]


# --- names ---
@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (pod("p", scheduler="vulcano-py"), "Pod default/p: spec.schedulerName"),
        (vcjob(schedulerName="vulcano-py"), "Job team/train: spec.schedulerName"),
        (
            vcjob([{"name": "t", "template": template(schedulerName="vulcano-py")}]),
            "Job team/train: spec.tasks[0].template.spec.schedulerName",
        ),
        (
            workload("apps/v1", "Deployment", {"template": template(schedulerName="vulcano-py")}),
            "Deployment default/w: spec.template.spec.schedulerName",
        ),
        (
            workload("mindxdl.gitee.com/v1", "AscendJob", {"schedulerName": "vulcano-py"}),
            "AscendJob default/w: spec.schedulerName",
        ),
        (
            workload(
                "batch.volcano.sh/v1alpha1", "CronJob", {"jobTemplate": {"spec": {"schedulerName": "vulcano-py"}}}
            ),
            "CronJob default/w: spec.jobTemplate.spec.schedulerName",
        ),
    ],
)
def test_a_scheduler_name_that_is_not_served_is_named(raw: Raw, field: str) -> None:
    assert warnings(node("n1"), raw) == [
        f"x.yaml, document 2: {field}: 'vulcano-py' is not a name of this scheduler (volcano-py); "
        "did you mean 'volcano-py'?"
    ]


def test_pods_of_kube_scheduler_and_pods_on_nodes_are_no_mistakes() -> None:
    placed = pod("p", scheduler="vulcano")
    placed["spec"]["nodeName"] = "n1"
    other = pod("q", scheduler="default-scheduler")
    other["metadata"]["annotations"] = {}
    assert warnings(node("n1"), placed, other) == []


def test_a_pod_of_a_pod_group_without_a_scheduler_name_is_named() -> None:
    (found,) = warnings(node("n1"), pod("p", "1", "g", scheduler="default-scheduler"))
    assert "Pod default/p: spec.schedulerName: 'default-scheduler', though the annotation " in found
    assert found.endswith("names a PodGroup: kube-scheduler ignores it; write 'volcano-py'")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nvidia.com/gpuu", "; did you mean 'nvidia.com/gpu'?"),
        ("memroy", "; did you mean 'memory'?"),
        ("example.com/foo", ""),
    ],
)
def test_a_resource_that_no_node_has_is_named(name: str, hint: str) -> None:
    raw = vcjob([{"name": "t", "template": template({name: "1"})}])
    field = f"spec.tasks[0].template.spec.containers[0].resources.requests[{name}]"
    text = f"x.yaml, document 2: Job team/train: {field}: no node has this resource{hint}"
    assert warnings(gpu_node(), raw) == [text]


@pytest.mark.parametrize("name", ["hugepages-2Mi", "nvidia.com/gpumem", "volcano.sh/vgpu-cores", "ephemeral-storage"])
def test_resources_that_nodes_need_not_offer_are_no_mistakes(name: str) -> None:
    assert warnings(gpu_node(), vcjob([{"name": "t", "template": template({name: "1"})}])) == []


def test_without_nodes_no_resource_is_missing() -> None:
    assert warnings(vcjob([{"name": "t", "template": template({"nvidia.com/gpu": "1"})}])) == []


def test_a_queue_may_limit_resources_of_nodes_to_come_but_not_misspelt_ones() -> None:
    raw = {**queue("q"), "spec": {"capability": {"nvidia.com/gpuu": 1, "example.com/foo": 1}}}
    (found,) = warnings(gpu_node(), raw)
    assert found.endswith(
        "Queue q: spec.capability[nvidia.com/gpuu]: no node has this resource; did you mean 'nvidia.com/gpu'?"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("volcano.sh/card.quota", '{"NVIDIA-H20O": 4}'),
        ("volcano.sh/card.request", '{"NVIDIA-H200|NVIDIA-H20O": 4}'),
        ("volcano.sh/card.name", "NVIDIA-H20O"),
        ("volcano.sh/card.card", "NVIDIA-H20O"),
    ],
)
def test_a_card_that_no_node_has_is_named(key: str, value: str) -> None:
    raw = vcjob()
    raw["metadata"]["annotations"] = {key: value}
    (found,) = warnings(gpu_node(), raw)
    assert found.endswith(
        f"Job team/train: metadata.annotations[{key}]: no node has the card 'NVIDIA-H20O'; did you mean 'NVIDIA-H200'?"
    )


def test_shares_of_a_card_on_nodes_are_no_mistakes() -> None:
    raw = queue("q")
    raw["metadata"]["annotations"] = {"volcano.sh/card.quota": '{"NVIDIA-H200/mig-1g.18gb-mixed": 4, "NVIDIA-H200": 2}'}
    assert warnings(gpu_node(), raw) == []


# --- annotations ---
def test_truncated_json_is_named_with_its_position_in_every_kind_of_object_and_template() -> None:
    text = '{"NVIDIA-H200": 4'
    problem = "not JSON: expecting ',' delimiter (line 1, column 18); the text ends there"
    cut = queue("q")
    cut["metadata"]["annotations"] = {"volcano.sh/card.quota": text}
    own = template()
    own["metadata"] = {"annotations": {"volcano.sh/card.request": text}}
    found = warnings(gpu_node(), cut, vcjob([{"name": "t", "template": own}]))
    assert found == [
        f"x.yaml, document 2: Queue q: metadata.annotations[volcano.sh/card.quota]: {problem}",
        "x.yaml, document 3: Job team/train: spec.tasks[0].template.metadata.annotations[volcano.sh/card.request]: "
        f"{problem}",
    ]


def test_the_first_objects_with_a_mistake_are_named_and_the_others_counted() -> None:
    raws = [pod(f"p{i}", scheduler="vulcano-py") for i in range(9)]
    found = warnings(*raws)
    assert [each.split(": ")[1] for each in found] == [f"Pod default/p{i}" for i in range(5)]
    assert [each.partition("?")[2] for each in found] == ["", "", "", "", " (4 more objects with it)"]


@pytest.mark.parametrize("value", [None, 3, "text", [], [None], {"a": None}, [["x"]]])
@pytest.mark.parametrize("field", ["spec", "status", "metadata"])
def test_values_of_wrong_types_are_left_to_the_decoder(field: str, value: object) -> None:
    for kind, raw in ((each.kind, each.raw) for each in read(vcjob(), pod("p"), node("n"), queue("q"))):
        changed = {**raw, field: {"name": "x", **value} if field == "metadata" and isinstance(value, dict) else value}
        if field != "metadata" or isinstance(changed["metadata"], dict):
            manifest_warnings([Manifest("x", kind, changed)], OURS)
        tasks = {**raw, "spec": {"tasks": value, "template": value, "containers": value, "schedulerName": value}}
        manifest_warnings([Manifest("x", kind, tasks)], OURS)


# --- JobTemplates ---
def flow(*steps: str, **metadata: str) -> Raw:
    raw = workload("flow.volcano.sh/v1alpha1", "JobFlow", {"flows": [{"name": step} for step in steps]})
    raw["metadata"] |= metadata
    return raw


def job_template(name: str, namespace: str = "default") -> Raw:
    raw = workload("flow.volcano.sh/v1alpha1", "JobTemplate", {"tasks": []})
    raw["metadata"] = {"name": name, "namespace": namespace}
    return raw


def test_a_template_that_does_not_exist_in_the_namespace_of_the_flow_is_named() -> None:
    place, text = "x.yaml, document 3: JobFlow default/w: spec.flows", "the step waits for it"
    assert warnings(job_template("train"), job_template("other", "team"), flow("train", "trian", "other")) == [
        f"{place}[1].name: there is no JobTemplate 'trian'; {text}; did you mean 'train'?",
        f"{place}[2].name: there is no JobTemplate 'other'; {text}",
    ]


def test_the_templates_of_the_cluster_count_for_a_flow_that_a_change_adds() -> None:
    assert manifest_warnings(read(flow("train")), OURS, read(job_template("train"))) == []


def test_a_stored_flow_may_have_run_the_steps_whose_templates_are_gone() -> None:
    assert warnings(flow("train", uid="u")) == []


# --- other names ---
def names_of(raw: Raw, *others: Raw) -> list[str]:
    """The problems of an object on a cluster with a labelled and tainted node, a queue and a PriorityClass."""
    labelled = node("n1")
    labelled["metadata"]["labels"] = {"kubernetes.io/arch": "arm64", "topology.kubernetes.io/zone": "a", "rack": "r"}
    labelled["spec"] = {"taints": [{"key": "dedicated", "value": "ai", "effect": "NoSchedule"}]}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
    return [text.partition("default/")[2] for text in warnings(raw, labelled, queue("research"), high, *others)]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"priorityClassName": "batch"}, "priorityClassName: there is no PriorityClass 'batch'"),
        ({"priorityClassName": "hig"}, "priorityClassName: there is no PriorityClass 'hig'; did you mean 'high'?"),
        (
            {"nodeSelector": {"kubernetes.io/arhc": "arm64"}},
            "nodeSelector[kubernetes.io/arhc]: no node has the label 'kubernetes.io/arhc'; "
            "did you mean 'kubernetes.io/arch'?",
        ),
        (
            {"nodeSelector": {"topology.kubernets.io/zone": "a"}},
            "nodeSelector[topology.kubernets.io/zone]: no node has the label 'topology.kubernets.io/zone'; "
            "did you mean 'topology.kubernetes.io/zone'?",
        ),
        (
            {"tolerations": [{"operator": "Exists"}, {"key": "dedicate", "operator": "Exists"}]},
            "tolerations[1].key: no node has a taint with the key 'dedicate'; did you mean 'dedicated'?",
        ),
    ],
)
def test_a_name_in_a_pod_that_nothing_has_is_named(spec: Raw, problem: str) -> None:
    raw = pod("p")
    raw["spec"] |= spec
    assert names_of(raw) == [f"p: spec.{problem}"]
    deployment = workload("apps/v1", "Deployment", {"template": template(**spec)})
    assert names_of(deployment) == [f"w: spec.template.spec.{problem}"]


def test_a_key_in_a_required_node_affinity_is_compared_with_labels() -> None:
    terms = [{"matchExpressions": [{"key": "rack", "operator": "Exists"}, {"key": "rakc", "operator": "Exists"}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    raw = pod("p")
    raw["spec"]["affinity"] = affinity
    (found,) = names_of(raw)
    assert found.endswith(
        "nodeSelectorTerms[0].matchExpressions[1].key: no node has the label 'rakc'; did you mean 'rack'?"
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "high"},
        {"priorityClassName": "system-node-critical"},
        {"priorityClassName": "gone", "priority": 7},  # an API server has admitted it
        {"nodeSelector": {"topology.kubernetes.io/region": "a", "rack-type": "r", "accelerator-type": "x"}},
        {"tolerations": [{"key": "dedicated"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
    ],
)
def test_names_that_exist_or_resemble_none_are_no_mistakes(spec: Raw) -> None:
    raw = pod("p")
    raw["spec"] |= spec
    assert names_of(raw) == []


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (workload("scheduling.volcano.sh/v1beta1", "PodGroup", {"queue": "reserch"}), "w: spec.queue"),
        (workload("batch.volcano.sh/v1alpha1", "Job", {"queue": "reserch"}), "w: spec.queue"),
        (
            pod("p", scheduler="volcano-py") | {"metadata": {"name": "p", "annotations": {
                "scheduling.volcano.sh/queue-name": "reserch"}}},
            "p: metadata.annotations[scheduling.volcano.sh/queue-name]",
        ),
    ],
)  # fmt: skip
def test_a_queue_that_resembles_another_is_named(raw: Raw, field: str) -> None:
    assert names_of(raw) == [f"{field}: there is no queue 'reserch'; did you mean 'research'?"]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("scheduling.k8s.io/group-nmae", "scheduling.k8s.io/group-name"),
        ("scheduling.volcano.sh/queue-nam", "scheduling.volcano.sh/queue-name"),
        ("volcano.sh/preemptible", "volcano.sh/preemptable"),
        ("huawei.com/schedule_minAvailabel", "huawei.com/schedule_minAvailable"),
    ],
)
def test_a_misspelt_annotation_is_named(key: str, meant: str) -> None:
    raw = pod("p", scheduler="volcano-py")
    raw["metadata"]["annotations"] = {key: "1"}
    problem = f"metadata.annotations[{key}]: unknown annotation {key!r}; did you mean {meant!r}?"
    assert names_of(raw) == [f"p: {problem}"]


@pytest.mark.parametrize(
    "key", ["volcano.sh/queue-name", "huawei.com/Ascend910B4", "volcano.sh/mine", "team/group-nam"]
)
def test_annotations_of_others_are_no_mistakes(key: str) -> None:
    raw = pod("p", scheduler="volcano-py")
    raw["metadata"]["annotations"] = {key: "1"}
    assert names_of(raw) == []
