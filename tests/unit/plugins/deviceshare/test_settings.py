"""The arguments of the plugin, and the ConfigMap that it shares with device plugins."""

import pytest

from scheduler.framework.configuration_file import ConfigurationError, parse_configuration
from scheduler.plugins.deviceshare.device_config import DEFAULT, parse_device_config
from tests.builders import World
from tests.unit.plugins.deviceshare.devices import config_map, jobs, limited, sharing, vgpu_node, vgpus

CONFIGURATION = """
actions: allocate
tiers:
- plugins:
  - name: deviceshare
    arguments: {{{}}}
"""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            "deviceshare.GPUSharingEnable: true, deviceshare.GPUNumberEnable: true",
            "can not define true in both gpu sharing and gpu number",
        ),
        (
            "deviceshare.GPUNumberEnable: true, deviceshare.VGPUEnable: true",
            "gpu-share and vgpu can't be used together",
        ),
        (
            "deviceshare.GPUSharingEnable: true, deviceshare.VGPUEnable: 'true'",
            "gpu-share and vgpu can't be used together",
        ),
    ],
)
def test_a_configuration_with_conflicting_sharing_modes_is_refused(arguments: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"conf.yaml: plugin deviceshare: {why}"):
        parse_configuration(CONFIGURATION.format(arguments), "conf.yaml")


def test_an_unknown_policy_is_reported_and_ignored() -> None:
    session = World(vgpu_node("n")).session(sharing(VGPUEnable=True, SchedulePolicy="tight", ScheduleWeight="x"))
    assert [problem.split(":")[1] for problem in session.problems] == [
        " argument deviceshare.SchedulePolicy",
        " argument deviceshare.ScheduleWeight",
    ]


def test_resources_can_have_other_names_and_the_map_another_place() -> None:
    text = "nvidia: {resourceCountName: example.com/gpus, resourceMemoryName: example.com/gpumem}"
    settings = sharing(VGPUEnable=True, KnownGeometriesCMName="mine", KnownGeometriesCMNamespace="kube-system")
    raw = vgpu_node("n")
    raw["status"]["allocatable"].update({"example.com/gpus": "20", "example.com/gpumem": "20000"})
    requesting = limited("p", {"example.com/gpus": 1, "example.com/gpumem": 3000})
    world = World(config_map("mine", {"device-config.yaml": text}), raw, jobs(requesting)).run(settings)
    assert vgpus(world) == {"p": "n-1,NVIDIA,3000,0:"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[", "not YAML"),
        ("[1]", "the document: a mapping is wanted, not list"),
        ("nvidia: 3", "nvidia: a mapping is wanted, not int"),
        ("nvidia: {knownMigGeometries: {}}", "nvidia.knownMigGeometries: a list is wanted, not dict"),
        ("nvidia: {resourceCountName: 3}", "resourceCountName: a short string is wanted, not '3'"),
        ("nvidia: {gpuMemoryFactor: -1}", "gpuMemoryFactor: a whole number from 0"),
        ("nvidia: {knownMigGeometries: [{models: 1}]}", "nvidia.knownMigGeometries[0].models: a list is wanted"),
        ("vnpus: [{}]", "vnpus[0]: commonWord and resourceName are needed"),
        ("vnpus: {configs: 1}", "vnpus: a list is wanted, not int"),
        (f"vnpus: [{', '.join(['1'] * 65)}]", "vnpus: only the first 64 entries are used"),
        ("a: &a [*a]\nvnpus: *a", "not YAML: line 1: 'a' is nested in itself"),
    ],
)
def test_invalid_fields_of_the_config_map_are_reported_with_their_path(text: str, where: str) -> None:
    _, problems = parse_device_config(text)
    assert any(problem.startswith(where) for problem in problems)


@pytest.mark.parametrize("text", ["", "{}", "nvidia: {}", "unknown: 1"])
def test_fields_missing_in_the_config_map_have_their_defaults(text: str) -> None:
    assert parse_device_config(text or "{}")[0] == DEFAULT


def test_both_formats_of_npus_are_read_and_templates_are_sorted() -> None:
    entry = (
        "{commonWord: A, resourceName: h/A, memoryCapacity: 9, templates: [{name: b, memory: 6}, {name: a, memory: 3}]}"
    )
    bare, _ = parse_device_config(f"vnpus: [{entry}]")
    wrapped, _ = parse_device_config(f"vnpus: {{hamiVnpuCore: true, configs: [{entry}]}}")
    assert bare.npus == wrapped.npus and (bare.soft_npus, wrapped.soft_npus) == (False, True)
    assert [template.name for template in bare.npus[0].templates] == ["a", "b"]


def test_problems_of_the_config_map_name_it() -> None:
    raw = config_map("volcano-vgpu-device-config", {"device-config.yaml": "nvidia: 3"})
    assert World(raw).run(sharing(VGPUEnable=True)).malformed == [
        "ConfigMap volcano-vgpu-device-config data[device-config.yaml]: nvidia: a mapping is wanted, not int"
    ]
