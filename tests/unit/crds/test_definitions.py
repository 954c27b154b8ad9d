"""The definitions in `deploy/crds` as users of Volcano know them: names, columns, subresources, defaults."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from controlplane.run import CRD_DIRECTORY
from scheduler.api import kinds
from scheduler.api.batch import MAX_FLOW_STEPS

# The limit on all annotations of an object together; `kubectl apply` keeps the manifest in one.
ANNOTATION_LIMIT = 256 * 1024

FILES = {
    "batch.volcano.sh_jobs.yaml": kinds.VCJOB,
    "batch.volcano.sh_cronjobs.yaml": kinds.CRON_JOB,
    "bus.volcano.sh_commands.yaml": kinds.COMMAND,
    "flow.volcano.sh_jobflows.yaml": kinds.JOB_FLOW,
    "flow.volcano.sh_jobtemplates.yaml": kinds.JOB_TEMPLATE,
    "mindxdl.gitee.com_ascendjobs.yaml": kinds.ACJOB,
    "nodeinfo.volcano.sh_numatopologies.yaml": kinds.NUMATOPOLOGY,
    "scheduling.volcano.sh_podgroups.yaml": kinds.POD_GROUP,
    "scheduling.volcano.sh_queues.yaml": kinds.QUEUE,
    "shard.volcano.sh_nodeshards.yaml": kinds.NODE_SHARD,
    "topology.volcano.sh_hypernodes.yaml": kinds.HYPER_NODE,
}


@cache
def read(file: str) -> Any:
    return yaml.load((CRD_DIRECTORY / file).read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def version(file: str) -> Any:
    (only,) = read(file)["spec"]["versions"]
    return only


def schema(file: str, *path: str) -> Any:
    """The schema of a field; "[]" stands for the items of a list."""
    found = version(file)["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["items"] if name == "[]" else found["properties"][name]
    return found


def defaults(found: Any, path: str = "") -> dict[str, Any]:
    """Maps each path of a schema to its default, without defaults inside of Pod templates and claims."""
    own = {path: found["default"]} if "default" in found else {}
    for name, each in found.get("properties", {}).items():
        if name not in ("template", "volumeClaim"):
            own |= defaults(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in found:
            own |= defaults(found[key], f"{path}[]")
    return own


def test_there_is_one_file_for_each_kind() -> None:
    assert {each.name for each in CRD_DIRECTORY.glob("*.yaml")} == set(FILES)


@pytest.mark.parametrize(("file", "kind"), FILES.items())
def test_a_definition_defines_the_kind_that_the_program_handles(file: str, kind: kinds.Kind) -> None:
    spec = read(file)["spec"]
    assert read(file)["metadata"]["name"] == f"{kind.plural}.{kind.group}"
    assert file == f"{kind.group}_{kind.plural}.yaml"
    assert (spec["group"], spec["names"]["plural"], spec["names"]["kind"]) == (kind.group, kind.plural, kind.name)
    assert spec["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    assert f"{kind.group}/{version(file)['name']}" == kind.api_version


@pytest.mark.parametrize("file", FILES)
def test_a_definition_bears_the_label_by_which_all_of_them_are_found(file: str) -> None:
    assert read(file)["metadata"]["labels"]["app.kubernetes.io/name"] == "volcano-py"


@pytest.mark.parametrize("file", FILES)
def test_a_definition_can_be_applied_by_a_client_that_remembers_it_in_an_annotation(file: str) -> None:
    assert len(json.dumps(read(file)).encode()) < ANNOTATION_LIMIT


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("batch.volcano.sh_jobs.yaml", ["vcjob", "vj"]),
        ("batch.volcano.sh_cronjobs.yaml", ["cronvcjob", "cronvj"]),
        ("bus.volcano.sh_commands.yaml", None),
        ("flow.volcano.sh_jobflows.yaml", ["jf"]),
        ("flow.volcano.sh_jobtemplates.yaml", ["jt"]),
        ("nodeinfo.volcano.sh_numatopologies.yaml", ["numatopo"]),
        ("scheduling.volcano.sh_podgroups.yaml", ["pg", "podgroup-v1beta1"]),
        ("scheduling.volcano.sh_queues.yaml", ["q", "queue-v1beta1"]),
        ("topology.volcano.sh_hypernodes.yaml", ["hn"]),
    ],
)
def test_the_short_names_are_those_of_volcano(file: str, names: list[str] | None) -> None:
    assert read(file)["spec"]["names"].get("shortNames") == names


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        (
            "batch.volcano.sh_jobs.yaml",
            {
                "STATUS": ".status.state.phase",
                "minAvailable": ".status.minAvailable",
                "RUNNINGS": ".status.running",
                "AGE": ".metadata.creationTimestamp",
                "QUEUE": ".spec.queue",
                "MESSAGE": ".status.state.message",
            },
        ),
        (
            "scheduling.volcano.sh_podgroups.yaml",
            {
                "STATUS": ".status.phase",
                "minMember": ".spec.minMember",
                "RUNNINGS": ".status.running",
                "AGE": ".metadata.creationTimestamp",
                "QUEUE": ".spec.queue",
            },
        ),
        (
            "scheduling.volcano.sh_queues.yaml",
            {
                "STATE": ".status.state",
                "WEIGHT": ".spec.weight",
                "PARENT": ".spec.parent",
                "RUNNING": ".status.running",
                "INQUEUE": ".status.inqueue",
                "PENDING": ".status.pending",
                "CPU": ".status.allocated.cpu",
                "MEMORY": ".status.allocated.memory",
                "DESERVED CPU": ".status.deserved.cpu",
                "DESERVED MEMORY": ".status.deserved.memory",
                "CARDS": ".status.cardSummary",
                "AGE": ".metadata.creationTimestamp",
            },
        ),
        (
            "flow.volcano.sh_jobflows.yaml",
            {
                "Status": ".status.state.phase",
                "Message": ".status.state.message",
                "Age": ".metadata.creationTimestamp",
            },
        ),
        (
            "topology.volcano.sh_hypernodes.yaml",
            {
                "Tier": ".spec.tier",
                "TierName": ".spec.tierName",
                "NodeCount": ".status.nodeCount",
                "Age": ".metadata.creationTimestamp",
            },
        ),
        ("batch.volcano.sh_cronjobs.yaml", {}),
        ("bus.volcano.sh_commands.yaml", {}),
        ("flow.volcano.sh_jobtemplates.yaml", {}),
        ("nodeinfo.volcano.sh_numatopologies.yaml", {}),
    ],
)
def test_the_columns_are_those_of_volcano_and_the_messages_of_jobs_and_job_flows(
    file: str, columns: dict[str, str]
) -> None:
    shown = version(file).get("additionalPrinterColumns", ())
    assert {each["name"]: each["jsonPath"] for each in shown} == columns
    wide = [each["name"] for each in shown if each.get("priority")]
    assert wide == [
        name for name in ("QUEUE", "DESERVED CPU", "DESERVED MEMORY", "CARDS", "Message") if name in columns
    ]


def test_status_is_a_subresource_of_what_is_reported_on_and_not_of_podgroups() -> None:
    having = {FILES[file].name for file in FILES if "status" in version(file).get("subresources", {})}
    assert having == {"AscendJob", "Job", "CronJob", "JobFlow", "JobTemplate", "Queue", "HyperNode", "NodeShard"}


JOB_DEFAULTS = {
    ".queue": "default",
    ".maxRetry": 3,
    ".networkTopology.mode": "hard",
    ".tasks[].partitionPolicy.minPartitions": 0,
    ".tasks[].partitionPolicy.networkTopology.mode": "hard",
}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("batch.volcano.sh_jobs.yaml", JOB_DEFAULTS),
        ("flow.volcano.sh_jobtemplates.yaml", JOB_DEFAULTS),
        (
            "batch.volcano.sh_cronjobs.yaml",
            {
                ".concurrencyPolicy": "Allow",
                ".suspend": False,
                ".successfulJobsHistoryLimit": 3,
                ".failedJobsHistoryLimit": 1,
                **{f".jobTemplate.spec{path}": value for path, value in JOB_DEFAULTS.items()},
            },
        ),
        (
            "flow.volcano.sh_jobflows.yaml",
            {f".flows[].patch.jobSpec{path}": value for path, value in JOB_DEFAULTS.items()},
        ),
        ("scheduling.volcano.sh_queues.yaml", {".weight": 1, ".dequeueStrategy": "traverse"}),
        (
            "scheduling.volcano.sh_podgroups.yaml",
            {
                ".queue": "default",
                ".networkTopology.mode": "hard",
                ".subGroupPolicy[].subGroupSize": 1,
                ".subGroupPolicy[].minSubGroups": 0,
                ".subGroupPolicy[].networkTopology.mode": "hard",
            },
        ),
        ("topology.volcano.sh_hypernodes.yaml", {}),
        ("nodeinfo.volcano.sh_numatopologies.yaml", {}),
    ],
)
def test_the_defaults_are_those_of_volcano(file: str, expected: dict[str, Any]) -> None:
    assert defaults(schema(file, "spec")) == expected


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("batch.volcano.sh_jobs.yaml", ("spec", "tasks", "[]")),
        ("batch.volcano.sh_cronjobs.yaml", ("spec", "jobTemplate", "spec", "tasks", "[]")),
        ("flow.volcano.sh_jobtemplates.yaml", ("spec", "tasks", "[]")),
        ("flow.volcano.sh_jobflows.yaml", ("spec", "flows", "[]", "patch", "jobSpec", "tasks", "[]")),
    ],
)
def test_the_template_of_a_task_is_a_whole_pod_template(file: str, path: tuple[str, ...]) -> None:
    pod = schema(file, *path, "template", "spec")
    assert pod["required"] == ["containers"]
    assert pod["properties"]["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    ports = pod["properties"]["containers"]["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"
    assert pod["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    metadata = schema(file, *path, "template", "metadata")
    assert set(metadata["properties"]) == {"name", "namespace", "labels", "annotations", "finalizers"}


def schemas(node: Any) -> Iterator[dict[str, Any]]:
    """All schemas within a schema."""
    if isinstance(node, list):
        for each in node:
            yield from schemas(each)
    elif isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield node
        for key, each in node.items():
            if key != "anyOf":
                yield from schemas(each)


@pytest.mark.parametrize("file", FILES)
def test_every_list_map_and_text_has_a_limit(file: str) -> None:
    properties = version(file)["schema"]["openAPIV3Schema"]["properties"]
    ours = [each for name, each in properties.items() if name not in ("apiVersion", "kind", "metadata")]
    for schema in schemas(ours):
        match schema:
            case {"type": "array"}:
                assert schema["maxItems"] <= 100_000
            case {"type": "object", "additionalProperties": _}:
                assert schema["maxProperties"] <= 10_000
            case {"type": "string"} if "enum" not in schema and schema.get("format") != "date-time":
                assert schema["maxLength"] <= 262_144


def test_a_flow_has_as_many_steps_as_the_controllers_run() -> None:
    spec = version("flow.volcano.sh_jobflows.yaml")["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["flows"]["maxItems"] == MAX_FLOW_STEPS
