"""The ConfigMap that device plugins and the scheduler share: names of resources, MIG geometries, NPU models.

Its key ``device-config.yaml`` has the sections ``nvidia`` and ``vnpus``. Defaults replace fields that are absent or
invalid; each invalid field is reported with its path.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.names import ASCEND_310P, VGPU_CORES, VGPU_MEMORY, VGPU_MEMORY_PERCENTAGE, VGPU_NUMBER
from scheduler.framework.documents import DocumentError, read_yaml
from scheduler.plugins.deviceshare.cards import Instances, Layouts, MigLayout

KEY: Final = "device-config.yaml"
MAX_NUMBER: Final = 2**31 - 1
MAX_ENTRIES: Final = 64
"""Most entries of a list that are read: nested lists may be YAML aliases of each other."""


class VgpuConfig(msgspec.Struct, frozen=True):
    """The names of vGPU resources, and the MIG geometries of GPU models."""

    number: str = VGPU_NUMBER
    memory: str = VGPU_MEMORY
    percentage: str = VGPU_MEMORY_PERCENTAGE
    cores: str = VGPU_CORES
    memory_factor: int = 1
    """MiB per unit of the memory resource."""
    models: tuple[tuple[tuple[str, ...], Layouts], ...] = ()
    """(substrings of model names, geometries of these models)."""

    def layouts(self, model: str) -> Layouts | None:
        """Returns the geometries of a model; None if they are unknown."""
        return next((layouts for names, layouts in self.models if any(name in model for name in names)), None)


class NpuTemplate(msgspec.Struct, frozen=True):
    """A size of virtual NPU."""

    name: str
    memory: int


class NpuModel(msgspec.Struct, frozen=True):
    """An NPU model in the configuration of HAMi's device plugin."""

    name: str
    """Its name in annotations (``commonWord``)."""
    resource: str
    memory_resource: str
    capacity: int
    """Memory of the chip; ``allocatable``: the part of it that Pods can use."""
    allocatable: int
    templates: tuple[NpuTemplate, ...]
    """Smallest first."""

    @property
    def core_resource(self) -> str:
        return f"{self.resource}-core"

    def trimmed(self, memory: int) -> tuple[int, str] | None:
        """Returns (memory, template) of the smallest template with at least ``memory``; the template of the whole chip
        is "". None if the chip has less."""
        for template in self.templates:
            if memory <= template.memory:
                return template.memory, template.name
        return (self.allocatable, "") if memory <= self.capacity else None


class DeviceConfig(msgspec.Struct, frozen=True):
    vgpu: VgpuConfig = msgspec.field(default_factory=VgpuConfig)
    npus: tuple[NpuModel, ...] = (
        NpuModel(
            name="Ascend310P",
            resource=ASCEND_310P,
            memory_resource=f"{ASCEND_310P}-memory",
            capacity=24576,
            allocatable=21527,
            templates=(NpuTemplate("vir01", 3072), NpuTemplate("vir02", 6144), NpuTemplate("vir04", 12288)),
        ),
    )
    soft_npus: bool = False
    """Default of nodes: whether NPUs are shared without partitioning (``hamiVnpuCore``)."""


DEFAULT: Final = DeviceConfig()
"""The configuration without a ConfigMap."""


@lru_cache(maxsize=8)
def parse_device_config(text: str) -> tuple[DeviceConfig, tuple[str, ...]]:
    """Returns the configuration in the text and the problems found. The same text returns the same objects."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        return DEFAULT, (f"not YAML: {f'line {error.line}: ' if error.line else ''}{str(error)[:128]}",)
    reader = _Reader()
    root = reader.mapping(document, "the document")
    config = DeviceConfig(vgpu=_vgpu(reader, reader.mapping(root.get("nvidia", {}), "nvidia")))
    if "vnpus" in root:
        config = _npus(reader, config, root["vnpus"])
    return config, tuple(reader.problems)


def _vgpu(reader: "_Reader", values: Mapping[str, Any]) -> VgpuConfig:
    base = VgpuConfig()
    models = []
    for i, entry in enumerate(reader.entries(values.get("knownMigGeometries"), "nvidia.knownMigGeometries")):
        where = f"nvidia.knownMigGeometries[{i}]"
        fields = reader.mapping(entry, where)
        names = [n for n in reader.entries(fields.get("models"), f"{where}.models") if isinstance(n, str) and n]
        groups = reader.entries(fields.get("allowedGeometries"), f"{where}.allowedGeometries")
        made = [_group(reader, group, f"{where}.allowedGeometries[{j}]") for j, group in enumerate(groups)]
        models.append((tuple(names), Layouts(tuple(group for group in made if group.name and group.instances))))
    return VgpuConfig(
        number=reader.text(values, "resourceCountName", base.number),
        memory=reader.text(values, "resourceMemoryName", base.memory),
        percentage=reader.text(values, "resourceMemoryPercentageName", base.percentage),
        cores=reader.text(values, "resourceCoreName", base.cores),
        memory_factor=max(reader.number(values, "gpuMemoryFactor", 1), 1),
        models=tuple(models),
    )


def _group(reader: "_Reader", value: object, where: str) -> MigLayout:
    fields = reader.mapping(value, where)
    instances = []
    for i, entry in enumerate(reader.entries(fields.get("geometries"), f"{where}.geometries")):
        one = reader.mapping(entry, f"{where}.geometries[{i}]")
        name, memory = reader.text(one, "name", ""), reader.number(one, "memory", 0)
        count = min(reader.number(one, "count", 0), 64)
        if name and count:
            instances.append(Instances(name, memory, count))
    return MigLayout(reader.text(fields, "group", ""), tuple(instances))


def _npus(reader: "_Reader", config: DeviceConfig, value: object) -> DeviceConfig:
    """Reads ``vnpus``: a mapping with ``configs``, or the list itself."""
    listed, soft = value, False
    if isinstance(value, dict):
        listed, soft = value.get("configs"), value.get("hamiVnpuCore") is True
    models: list[NpuModel] = []
    for i, entry in enumerate(reader.entries(listed, "vnpus")):
        fields = reader.mapping(entry, f"vnpus[{i}]")
        model = NpuModel(
            name=reader.text(fields, "commonWord", ""),
            resource=reader.text(fields, "resourceName", ""),
            memory_resource=reader.text(fields, "resourceMemoryName", ""),
            capacity=reader.number(fields, "memoryCapacity", 0),
            allocatable=reader.number(fields, "memoryAllocatable", 0),
            templates=_templates(reader, fields.get("templates"), f"vnpus[{i}].templates"),
        )
        if not model.name or not model.resource:
            reader.problems.append(f"vnpus[{i}]: commonWord and resourceName are needed")
        elif model.name not in (known.name for known in models):
            models.append(model)
    return replace(config, npus=tuple(models), soft_npus=soft)


def _templates(reader: "_Reader", value: object, where: str) -> tuple[NpuTemplate, ...]:
    templates = []
    for i, entry in enumerate(reader.entries(value, where)):
        fields = reader.mapping(entry, f"{where}[{i}]")
        templates.append(NpuTemplate(reader.text(fields, "name", ""), reader.number(fields, "memory", 0)))
    return tuple(sorted((t for t in templates if t.name), key=lambda t: t.memory))


class _Reader:
    """Reads fields of a document and collects problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(self, value: object, where: str) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return {str(key): entry for key, entry in value.items()}
        self.problems.append(f"{where}: a mapping is wanted, not {type(value).__name__}")
        return {}

    def entries(self, value: object, where: str) -> list[Any]:
        if value is None or isinstance(value, list):
            if len(value or ()) > MAX_ENTRIES:
                self.problems.append(f"{where}: only the first {MAX_ENTRIES} entries are used")
            return (value or [])[:MAX_ENTRIES]
        self.problems.append(f"{where}: a list is wanted, not {type(value).__name__}")
        return []

    def text(self, values: Mapping[str, Any], key: str, default: str) -> str:
        value = values.get(key)
        if value is None or value == "":
            return default
        if isinstance(value, str) and len(value) < 254:
            return value
        self.problems.append(f"{key}: a short string is wanted, not {str(value)[:64]!r}")
        return default

    def number(self, values: Mapping[str, Any], key: str, default: int) -> int:
        value = values.get(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER:
            return value
        self.problems.append(f"{key}: a whole number from 0 to {MAX_NUMBER} is wanted, not {str(value)[:64]!r}")
        return default
