"""The arguments of the plugin."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.api.names import VGPU_CONFIGMAP, VGPU_CONFIGMAP_NAMESPACE
from scheduler.framework.arguments import Arguments
from scheduler.plugins.deviceshare.cards import BINPACK, SPREAD
from scheduler.plugins.deviceshare.exclusion import Rule

PREFIX: Final = "deviceshare."
RULES: Final = f"{PREFIX}GPUExclusiveRules"
VGPU_INIT_CONTAINERS: Final = f"{PREFIX}VGPUInitContainersEnable"


class DeviceShareSettings(msgspec.Struct, frozen=True):
    """The enabled families and their options."""

    gpu_sharing: bool
    gpu_number: bool
    vgpu: bool
    vgpu_init_containers: bool
    """The vGPU device plugin serves any number of init containers."""
    mindcluster: bool
    hami: bool
    node_lock: bool
    policy: str
    weight: int
    config_map: tuple[str, str]
    """(namespace, name)."""
    rules: tuple[Rule, ...]

    @classmethod
    def read(cls, arguments: Arguments) -> "DeviceShareSettings":
        policy = arguments.text(f"{PREFIX}SchedulePolicy", "")
        if policy not in ("", BINPACK, SPREAD):
            policy = arguments.set_aside(f"{PREFIX}SchedulePolicy", policy, f"neither {BINPACK} nor {SPREAD}", "")
        return cls(
            gpu_sharing=arguments.boolean(f"{PREFIX}GPUSharingEnable", False),
            gpu_number=arguments.boolean(f"{PREFIX}GPUNumberEnable", False),
            vgpu=arguments.boolean(f"{PREFIX}VGPUEnable", False),
            vgpu_init_containers=arguments.boolean(VGPU_INIT_CONTAINERS, False),
            mindcluster=arguments.boolean(f"{PREFIX}AscendMindClusterVNPUEnable", False),
            hami=arguments.boolean(f"{PREFIX}AscendHAMiVNPUEnable", False),
            node_lock=arguments.boolean(f"{PREFIX}NodeLockEnable", False),
            policy=policy,
            weight=max(arguments.integer(f"{PREFIX}ScheduleWeight", 0), 0),
            config_map=(
                arguments.text(f"{PREFIX}KnownGeometriesCMNamespace", VGPU_CONFIGMAP_NAMESPACE),
                arguments.text(f"{PREFIX}KnownGeometriesCMName", VGPU_CONFIGMAP),
            ),
            rules=_rules(arguments),
        )

    @property
    def conflict(self) -> str:
        """Why the scheduler refuses this configuration, or ""."""
        if self.gpu_sharing and self.gpu_number:
            return "can not define true in both gpu sharing and gpu number"
        if (self.gpu_sharing or self.gpu_number) and self.vgpu:
            return "gpu-share and vgpu can't be used together"
        return ""


def _rules(arguments: Arguments) -> tuple[Rule, ...]:
    """Reads the label rules; entries that are not labels are reported and ignored."""
    value: Any = arguments.get(RULES)
    if value is None:
        return ()
    if not isinstance(value, list):
        return arguments.set_aside(RULES, value, "not a list of labels", ())
    rules = []
    for entry in value:
        labels = entry if isinstance(entry, Mapping) else {}
        rule = frozenset((k, v) for k, v in labels.items() if isinstance(k, str) and isinstance(v, str))
        if not rule or len(rule) < len(labels):
            arguments.set_aside(RULES, entry, "not a mapping of labels to strings", sorted(rule))
        if rule:
            rules.append(rule)
    return tuple(rules)
