"""The options of the plugin: the arguments of the entry ``init-params`` of ``configurations``, as MindCluster's
scheduler configuration has them. Their values are strings. Other options of the entry are ignored."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.framework.arguments import Arguments
from scheduler.framework.plugin_session import PluginSession

ENTRY: Final = "init-params"
PRESET_VIRTUAL_DEVICE: Final = "presetVirtualDevice"


class AscendSettings(msgspec.Struct, frozen=True):
    force_enqueue: bool
    """A job for which the cluster has enough free chips is admitted to its queue whatever plugins of later tiers say
    (``forceEnqueue``)."""
    self_maintain: bool
    """The free chips of a node are those that it has and no Pod holds, not those that the device plugin lists as free
    (``self-maintain-available-card``)."""
    prefer_previous: bool
    """A Pod that replaces another of its job prefers that one's node (``prefer-previous-node``)."""
    cluster_reports: bool
    """ClusterD's collected reports are read besides those of each node (``useClusterInfoManager``)."""
    preset_virtual: bool
    """Virtual NPUs are only created beforehand, not on demand (``presetVirtualDevice``)."""
    dying_words: bool
    """Before the Pods of a job are deleted after a fault, the ranks of the faulty chips are written into a ConfigMap
    beside the job, if the scheduler has the right (``dying-words``)."""
    grace_over_time: int
    """Seconds after which Pods of a restart with a grace period that still exist are deleted by force
    (``grace-over-time``)."""
    super_pod_size: int
    """Largest number of nodes of a super pod (``super-pod-size``)."""
    reserve_nodes: int
    """Nodes of each super pod that are used last (``reserve-nodes``)."""

    @classmethod
    def read(cls, arguments: Arguments) -> "AscendSettings":
        size = _number(arguments, "super-pod-size", 48, least=1)
        reserve = _number(arguments, "reserve-nodes", 2, least=1)
        if reserve >= size:
            reserve = arguments.set_aside(
                "reserve-nodes", reserve, "not less than super-pod-size", 2 if size > 2 else 0
            )
        return cls(
            force_enqueue=arguments.boolean("forceEnqueue", False),
            self_maintain=arguments.boolean("self-maintain-available-card", True),
            prefer_previous=arguments.boolean("prefer-previous-node", False),
            cluster_reports=arguments.boolean("useClusterInfoManager", True),
            dying_words=arguments.boolean("dying-words", True),
            grace_over_time=_number(arguments, "grace-over-time", 900, least=2, most=3600),
            super_pod_size=size,
            reserve_nodes=reserve,
            preset_virtual=arguments.boolean(PRESET_VIRTUAL_DEVICE, False),
        )


def _number(arguments: Arguments, key: str, default: int, *, least: int, most: int = 10**9) -> int:
    """Returns a number that is written as a string."""
    value = arguments.get(key)
    if value is None:
        return default
    text = str(value)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        problem = f"not a number of at least {least}" if most == 10**9 else f"not a number from {least} to {most}"
        return arguments.set_aside(key, value, problem, default)
    return int(text)


def settings_of(session: PluginSession) -> AscendSettings:
    """Reads the options; an option that cannot be used is reported, and its default is used."""
    values: Mapping[str, Any] = session.configuration.action_arguments.get(ENTRY, {})
    arguments = Arguments(values)
    settings = AscendSettings.read(arguments)
    session.problems += [f"{ENTRY}: {problem}" for problem in arguments.problems]
    return settings
