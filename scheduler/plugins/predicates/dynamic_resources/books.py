"""What is taken of the devices: which ones, how much of those that are shared, how much of their pools' counters.

Amounts are whole numbers, and what is taken is given back exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from scheduler.api import dra
from scheduler.plugins.predicates.dynamic_resources.demand import Ask
from scheduler.plugins.predicates.dynamic_resources.devices import Amounts, CounterKey, Device, PoolKey, nano
from scheduler.plugins.predicates.dynamic_resources.pools import Inventory, NodePools

NOTHING: Final[Amounts] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A device chosen for a request."""

    device: Device
    ask: Ask
    consumed: Amounts = field(default_factory=dict)
    """Of a device that claims share: what this one gets of its capacity."""

    @property
    def looks_on(self) -> bool:
        """Administrators' access takes nothing from anybody."""
        return self.ask.spec.admin_access


@dataclass(slots=True)
class _Shares:
    holders: int = 0
    consumed: dict[str, int] = field(default_factory=dict)


class Books:
    """The state of all devices in one session."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._taken: dict[Device, int] = {}
        self._shares: dict[Device, _Shares] = {}
        self._drawn: dict[PoolKey, dict[CounterKey, int]] = {}
        self._stamps: dict[PoolKey, int] = {}

    def stamp(self, pools: NodePools) -> int:
        """A number that grows with every change to what a node can take."""
        stamps = self._stamps
        return sum(stamps.get(key, 0) for key in pools.keys) if stamps else 0

    # --- questions ---
    def free(self, device: Device) -> bool:
        """Nobody has the device for itself."""
        return device not in self._taken

    def consumption(self, device: Device, ask: Ask) -> Amounts | None:
        """What the request would consume of a device's capacity, if it may ask for that and so much is left; else
        None."""
        asked = ask.capacity
        if not device.capacity:
            return None if asked else NOTHING
        if any(dimension not in device.capacity for dimension in asked):
            return None
        shares = self._shares.get(device)
        consumed = {}
        for dimension, capacity in device.capacity.items():
            amount = capacity.consumed(asked.get(dimension))
            used = shares.consumed.get(dimension, 0) if shares is not None else 0
            if amount is None or used + amount > capacity.value:
                return None
            consumed[dimension] = amount
        return consumed

    def counters_left(self, device: Device) -> bool:
        """Whether the pool's counters have enough for the device; one that is shared draws on them once."""
        if not device.counters or device in self._shares:
            return True
        limits = self.inventory.counters(device.pool_key)
        drawn = self._drawn.get(device.pool_key, {})
        return all(drawn.get(key, 0) + amount <= limits.get(key, 0) for key, amount in device.counters.items())

    # --- changes ---
    def take(self, pick: Pick) -> None:
        device = pick.device
        if pick.looks_on:
            return
        if device.shared:
            shares = self._shares.get(device)
            if shares is None:
                shares = self._shares[device] = _Shares()
                self._draw(device, 1)
            shares.holders += 1
            for dimension, amount in pick.consumed.items():
                shares.consumed[dimension] = shares.consumed.get(dimension, 0) + amount
        else:
            number = self._taken[device] = self._taken.get(device, 0) + 1
            if number == 1:
                self._draw(device, 1)
        self._changed(device)

    def give_back(self, pick: Pick) -> None:
        """Undo a ``take``."""
        device = pick.device
        if pick.looks_on:
            return
        if device.shared:
            shares = self._shares[device]
            shares.holders -= 1
            for dimension, amount in pick.consumed.items():
                shares.consumed[dimension] -= amount
            if not shares.holders:
                del self._shares[device]
                self._draw(device, -1)
        else:
            self._taken[device] -= 1
            if not self._taken[device]:
                del self._taken[device]
                self._draw(device, -1)
        self._changed(device)

    def occupy(self, results: Iterable[dra.DeviceResult]) -> None:
        """Take what an allocation in the cluster holds; devices that are offered no more are passed over. Raises
        QuantityError, nothing taken, where an amount is malformed."""
        picks = []
        for result in results:
            device = self.inventory.by_id.get((result.driver, result.pool, result.device))
            if device is not None and not result.admin_access:
                consumed = {name: nano(amount) for name, amount in (result.consumed_capacity or {}).items()}
                picks.append(Pick(device, _HELD, consumed))
        for pick in picks:
            self.take(pick)

    def _draw(self, device: Device, sign: int) -> None:
        if device.counters:
            drawn = self._drawn.setdefault(device.pool_key, {})
            for key, amount in device.counters.items():
                drawn[key] = drawn.get(key, 0) + sign * amount

    def _changed(self, device: Device) -> None:
        key = device.pool_key
        self._stamps[key] = self._stamps.get(key, 0) + 1


_HELD: Final = Ask(dra.DeviceSubRequest(), "", "", -1, (), {})
"""Stands for the request of an allocation of which only the devices matter."""
