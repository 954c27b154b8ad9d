"""The chart and the manifests as files, without Helm."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler import __version__
from scheduler.api import names
from scheduler.api.explained_kinds import EXPLAINED
from scheduler.api.kinds import find_kind
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION
from scheduler.webhooks.routes import routes

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "volcano-py"
EXAMPLES = sorted((ROOT / "deploy" / "examples").glob("*.yaml"))
RIGHTS = {"ServiceAccount", "Role", "RoleBinding"}
"""The kinds with which an example gives its Pods rights; the program does not read them."""
IMAGE = re.compile(r"^\s*-?\s*image: *[\"']?([^\s\"'{]+)", re.MULTILINE)


def load(name: str) -> Any:
    return yaml.safe_load((CHART / name).read_text(encoding="utf-8"))


@pytest.fixture
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return found


def test_the_chart_is_of_the_version_of_the_program() -> None:
    assert load("Chart.yaml")["appVersion"] == __version__


def test_the_scheduler_is_configured_as_it_is_without_a_file() -> None:
    assert load("values.yaml")["scheduler"]["configuration"] == DEFAULT_CONFIGURATION


def test_the_scheduler_answers_to_its_own_name() -> None:
    assert load("values.yaml")["schedulerNames"] == [DEFAULT_SCHEDULER_NAME]


def test_the_resource_definitions_are_those_of_deploy() -> None:
    assert (CHART / "crds").resolve() == ROOT / "deploy" / "crds"


def test_the_admissions_are_those_that_volcanos_chart_has_and_those_of_flows_templates_and_ascend_jobs(
    schema: dict[str, Any],
) -> None:
    assert load("values.yaml")["webhooks"]["admissions"] == [
        "/jobs/mutate", "/jobs/validate", "/podgroups/validate", "/queues/mutate", "/queues/validate",
        "/hypernodes/validate", "/cronjobs/validate", "/jobflows/validate", "/jobtemplates/validate",
        "/ascendjobs/validate",
    ]  # fmt: skip
    allowed = schema["properties"]["webhooks"]["properties"]["admissions"]["items"]["enum"]
    assert sorted(allowed) == sorted(routes())


@pytest.fixture(scope="module")
def protected() -> Callable[[str], bool]:
    """Whether the chart's policy keeps users from writing an annotation."""
    text = (CHART / "templates" / "_device-annotations.tpl").read_text(encoding="utf-8")
    table = yaml.safe_load(text.partition('"volcano-py.deviceAnnotations" -}}')[2].partition("{{")[0])

    def found(key: str) -> bool:
        around = any(key.startswith(begin) and key.endswith(end) for begin, end in table["around"])
        return key in table["keys"] or key.startswith(tuple(table["prefixes"])) or around

    return found


@pytest.mark.parametrize(
    "key",
    [
        *names.TASK_ANNOTATIONS,
        f"{names.HAMI_PREFIX}Ascend910B2{names.HAMI_ALLOCATED_SUFFIX}",
        f"{names.HAMI_PREFIX}Ascend910B2{names.HAMI_TO_ALLOCATE_SUFFIX}",
        names.ASCEND_910_CONFIGURATION,
        names.ASCEND_310P,
        names.BINDING_RECORD,
        names.GPU_PREDICATE_TIME,
        names.HAMI_BIND_PHASE,
        names.HAMI_BIND_TIME,
        names.HAMI_NODE,
        names.HAMI_TIME,
        names.PREDICATE_TIME,
        names.VGPU_BIND_PHASE,
        names.VGPU_BIND_TIME,
        names.VGPU_IDS_TO_ALLOCATE,
        names.VGPU_NODE,
        names.VGPU_TIME,
    ],
)
def test_what_the_scheduler_writes_about_devices_users_may_not_write(
    key: str, protected: Callable[[str], bool]
) -> None:
    assert protected(key)


@pytest.mark.parametrize("key", [*names.CLASS_ANNOTATIONS, names.GROUP_NAME, names.CARD_NAME, names.HCCL_RANK_INDEX])
def test_keys_by_which_users_steer_the_scheduler_stay_theirs(key: str, protected: Callable[[str], bool]) -> None:
    assert not protected(key)


def test_every_value_has_a_schema_and_every_schema_a_value(schema: dict[str, Any]) -> None:
    def names(properties: dict[str, Any], path: str = "") -> Iterator[str]:
        for key, value in properties.items():
            yield f"{path}{key}"
            yield from names(value.get("properties", {}) if key != "podDisruptionBudget" else {}, f"{path}{key}.")

    def given(values: dict[str, Any], path: str = "") -> Iterator[str]:
        for key, value in values.items():
            yield f"{path}{key}"
            if isinstance(value, dict) and f"{path}{key}." in prefixes:
                yield from given(value, f"{path}{key}.")

    known = set(names(schema["properties"]))
    prefixes = {f"{name.rpartition('.')[0]}." for name in known}
    assert set(given(load("values.yaml"))) == known - {"global"}


def test_users_of_a_namespace_may_ask_about_every_kind_that_is_explained() -> None:
    wanted = {f"{entry.resource}/explain" for entry in EXPLAINED.values()}
    for file in (CHART / "templates" / "user-roles.yaml", ROOT / "deploy" / "volcano-py.yaml"):
        assert set(re.findall(r"[a-z]+/explain", file.read_text(encoding="utf-8"))) == wanted


def test_no_image_names_a_registry() -> None:
    files = [*EXAMPLES, ROOT / "deploy" / "volcano-py.yaml", CHART / "values.yaml", CHART / "templates" / "NOTES.txt"]
    images = {image for file in files for image in IMAGE.findall(file.read_text(encoding="utf-8"))}
    assert images
    # The first part of a name is a host if it has a dot or a port.
    assert [image for image in images if "/" in image and re.search("[.:]", image.split("/")[0])] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_for_this_scheduler_and_says_what_it_shows(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# ")
    for manifest in yaml.safe_load_all(text):
        assert find_kind(manifest["apiVersion"], manifest["kind"]) or manifest["kind"] in RIGHTS
        for name in _scheduler_names(manifest):
            assert name == DEFAULT_SCHEDULER_NAME


def _scheduler_names(value: Any) -> Iterator[str]:
    """The schedulerName of each Pod or job; "" for a Pod without one."""
    if isinstance(value, list):
        for item in value:
            yield from _scheduler_names(item)
    elif isinstance(value, dict):
        if "tasks" in value or ("containers" in value and "schedulerName" in value):
            yield value.get("schedulerName", "")
        for member in value.values():
            yield from _scheduler_names(member)
