"""What the plugins of a configuration require of the cache: the objects it reads, and how it classifies Pods.

A plugin with requirements has a class method ``cache_requirements(arguments, config_maps)``. It is called before a
snapshot if the configuration or a ConfigMap has changed, so that the change takes effect with the next session.
"""

from collections.abc import Mapping, Set
from typing import Any

import msgspec

from scheduler.api.objects import ConfigMap
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.failures import AnswerError, raise_as


class CacheRequirements(msgspec.Struct, frozen=True):
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
    ``namespace/name``. Raises PluginError."""
    result = CacheRequirements()
    for option in (option for tier in configuration.tiers for option in tier):
        plugin: Any = registry.plugin(option.name)
        if hasattr(plugin, "cache_requirements"):
            result |= _of_plugin(option.name, plugin, Arguments(option.arguments), config_maps)
    return result


def _of_plugin(name: str, plugin: Any, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
    """Raises PluginError if the class method raises or returns anything else."""
    try:
        found = plugin.cache_requirements(arguments, config_maps)
        if not isinstance(found, CacheRequirements):
            raise AnswerError(f"returned {found!r:.66}, not CacheRequirements")
        for field in found.__struct_fields__:
            value = getattr(found, field)
            if not isinstance(value, bool if field == "originals" else Set):
                raise AnswerError(f"returned CacheRequirements whose {field} are {value!r:.66}, not a frozenset")
    except Exception as error:  # the code of others may raise anything
        raise_as(f"plugin {name}", "cache_requirements", error)
    return found
