"""How plugins divide accelerator cards: the parts that a Pod requests, by their names (``scheduler.api.card_kinds``).

A plugin that divides cards has a class method ``card_parts(arguments, config_maps)``, which returns its ``CardParts``.
Card quota reads them, so that it counts the parts that the plugin allocates.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from scheduler.api.card_kinds import CardKind
from scheduler.api.job import Job
from scheduler.api.objects import ConfigMap
from scheduler.api.task import TaskClass
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.failures import raise_as

Labels = Mapping[str, str]


class Parts(NamedTuple):
    """Equal parts of the cards of one model."""

    part: str
    """The name after the model (``vgpu-8g``); "": whole cards."""
    number: int


class PartRequest(NamedTuple):
    """What one task requests of the cards of one resource. A task may have several requests for one resource."""

    resource: str
    kind: CardKind
    on_node: Callable[[Labels], Parts | None]
    """Returns the parts on a node with these labels; None if its cards have no such parts."""


class CardParts(Hashable, Protocol):
    """How a plugin divides the cards of some resources. Equal objects give equal answers."""

    @property
    def kinds(self) -> frozenset[CardKind]:
        """The kinds of parts."""

    @property
    def vendors(self) -> Mapping[str, str]:
        """Resource that Pods request -> domain of the labels that name the model of its cards (``nvidia.com``)."""

    @property
    def labels(self) -> frozenset[str]:
        """The labels of nodes that ``PartRequest.on_node`` and ``count`` read."""

    @property
    def counted(self) -> tuple[str, ...]:
        """The resources of nodes that ``count`` reads."""

    @property
    def per_job(self) -> bool:
        """Whether ``of_job`` returns anything but None."""

    def only_parts(self, labels: Labels) -> bool:
        """Whether units of the resources are no whole cards on a node with these labels."""

    def of_job(self, job: Job) -> Hashable:
        """Returns what ``requests`` needs to know of a job; None for most jobs."""

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        """Returns the requests of a task of a class; empty if it requests no part."""

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        """Returns how many parts of one size a node can have; how many whole cards, for the part "". ``amounts``:
        resource of ``counted`` -> what the node has of it, in whole units."""


def card_parts_of(configuration: Configuration, config_maps: Mapping[str, ConfigMap]) -> tuple[CardParts, ...]:
    """Returns how the plugins of a configuration divide cards. Raises PluginError."""
    options = (option for tier in configuration.tiers for option in tier)
    return tuple(parts for option in options for parts in _of_plugin(option.name, option.arguments, config_maps))


def _of_plugin(name: str, arguments: Mapping[str, Any], config_maps: Mapping[str, ConfigMap]) -> Iterator[CardParts]:
    plugin: Any = registry.plugin(name)
    if not hasattr(plugin, "card_parts"):
        return
    try:
        found: Iterable[CardParts] = plugin.card_parts(Arguments(arguments), config_maps)
        yield from found
    except Exception as error:  # the code of others may raise anything
        raise_as(f"plugin {name}", "card_parts", error)
