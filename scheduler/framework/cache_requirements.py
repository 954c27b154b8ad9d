"""What the plugins of a configuration require of the cache: the objects it reads, and how it classifies Pods.

A plugin with requirements has a class method ``cache_requirements(arguments, config_maps)``. It is called before a
snapshot if the configuration or a ConfigMap has changed, so that the change takes effect with the next session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.api.objects import ConfigMap
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration


@dataclass(frozen=True, slots=True)
class CacheRequirements:
    """The requirements of one plugin, or of all plugins together."""

    uncounted: frozenset[str] = frozenset()
    """Resources that nodes do not count: only a plugin decides about them."""
    devices: frozenset[str] = frozenset()
    """Resources whose devices only this plugin chooses."""
    pod_labels: frozenset[str] = frozenset()
    """Labels of Pods that plugins read: Pods that differ in one of them are in different classes."""
    pod_annotations: frozenset[str] = frozenset()
    """Annotations of Pods that plugins read, besides ``CLASS_ANNOTATIONS``; they split classes as ``pod_labels`` do."""
    config_maps: frozenset[tuple[str, str]] = frozenset()
    """(namespace, name) of ConfigMaps to read, besides those with the state of nodes."""
    optional_config_maps: frozenset[tuple[str, str]] = frozenset()
    """(namespace, name) of ConfigMaps to read if the scheduler has the right to."""
    labelled_config_maps: frozenset[tuple[str, str]] = frozenset()
    """(namespace, label selector) of ConfigMaps to read."""
    originals: bool = False
    """Whether plugins need whole objects, to send them to other programs."""

    def __or__(self, other: "CacheRequirements") -> "CacheRequirements":
        return CacheRequirements(
            self.uncounted | other.uncounted,
            self.devices | other.devices,
            self.pod_labels | other.pod_labels,
            self.pod_annotations | other.pod_annotations,
            self.config_maps | other.config_maps,
            self.optional_config_maps | other.optional_config_maps,
            self.labelled_config_maps | other.labelled_config_maps,
            self.originals or other.originals,
        )


def cache_requirements_of(configuration: Configuration, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
    """Returns the requirements of the plugins of a configuration. ``config_maps``: the known ConfigMaps by
    ``namespace/name``."""
    result = CacheRequirements()
    for option in (option for tier in configuration.tiers for option in tier):
        plugin: Any = registry.plugin(option.name)
        if hasattr(plugin, "cache_requirements"):
            result |= plugin.cache_requirements(Arguments(option.arguments), config_maps)
    return result
