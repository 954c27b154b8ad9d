"""Builders for inventories of devices and for demands, for tests of the search."""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.api.dra import DeviceClass, ResourceClaimSpec, ResourceSlice
from scheduler.api.node import NodeFacts
from scheduler.api.objects import Node
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.budget import Budget, SessionBudget
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.demand import ClaimDemand, read_demand
from scheduler.plugins.predicates.dynamic_resources.pools import DeviceInventory
from scheduler.plugins.predicates.dynamic_resources.search import Picks, Search
from tests.builders import Raw
from tests.device_builders import device_class

CLASSES = {"gpu": device_class("gpu")}


def inventory(
    slices: Sequence[Raw], nodes: Mapping[str, Mapping[str, str]] | Sequence[str] = ("n1",)
) -> DeviceInventory:
    """The inventory of slices and nodes. ``nodes``: names, or names with labels."""
    labels = nodes if isinstance(nodes, Mapping) else {name: {} for name in nodes}
    objects = [msgspec.convert({"metadata": {"name": n, "labels": dict(labels[n])}}, Node) for n in sorted(labels)]
    return DeviceInventory(
        {s["metadata"]["name"]: msgspec.convert(s, ResourceSlice) for s in slices}, NodeFacts(objects), None
    )


def demand(spec: Raw, title: str = "c") -> ClaimDemand:
    classes = {name: msgspec.convert(raw, DeviceClass) for name, raw in CLASSES.items()}
    return read_demand(title, msgspec.convert(spec, ResourceClaimSpec), classes)


def search(books: Books, *demands: ClaimDemand, row: int = 0, choices: int | None = None) -> Picks | None:
    return Search(books, books.inventory.at(row), demands, Selectors(), Budget(choices, SessionBudget(), "")).run()


def names(picks: Picks | None) -> list[list[str]] | None:
    """The devices chosen for each demand."""
    return None if picks is None else [[pick.device.spec.name for pick in chosen] for chosen in picks]
