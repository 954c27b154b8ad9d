"""The books of devices: which are taken, the consumed capacity of shared ones, and the used counters of their pools.

Amounts are integers, so taking and releasing a device restores them exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api import dra
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative
from scheduler.plugins.predicates.dynamic_resources.devices import Amounts, CounterKey, PoolKey, SlicedDevice, nano
from scheduler.plugins.predicates.dynamic_resources.pools import DeviceInventory, NodePools

NOTHING: Final[Amounts] = {}


class Pick(msgspec.Struct, frozen=True, eq=False):
    """A device chosen for a request."""

    device: SlicedDevice
    alternative: Alternative
    consumed: Amounts = msgspec.field(default_factory=dict)
    """The capacity of a shared device that this claim consumes."""

    @property
    def admin_access(self) -> bool:
        """Whether the request has administrator access, which takes no device from others."""
        return self.alternative.spec.admin_access


@dataclass(slots=True)
class _SharedUse:
    users: int = 0
    consumed: dict[str, int] = field(default_factory=dict)


class Books:
    """The use of all devices in one session."""

    def __init__(self, inventory: DeviceInventory) -> None:
        self.inventory = inventory
        self._taken: dict[SlicedDevice, int] = {}
        self._shares: dict[SlicedDevice, _SharedUse] = {}
        self._counters_used: dict[PoolKey, dict[CounterKey, int]] = {}
        self._versions: dict[PoolKey, int] = {}

    def version(self, pools: NodePools) -> int:
        """A number that increases whenever the devices that a node can take change."""
        versions = self._versions
        return sum(versions.get(key, 0) for key in pools.keys) if versions else 0

    # --- queries ---
    def free(self, device: SlicedDevice) -> bool:
        """Whether no claim has the device exclusively."""
        return device not in self._taken

    def consumption(self, device: SlicedDevice, alternative: Alternative) -> Amounts | None:
        """The capacity that a request would consume of a device; None if the request is not allowed by the device's
        request policy or exceeds the free capacity."""
        requested = alternative.capacity
        if not device.capacity:
            return None if requested else NOTHING
        if any(dimension not in device.capacity for dimension in requested):
            return None
        shares = self._shares.get(device)
        consumed = {}
        for dimension, capacity in device.capacity.items():
            amount = capacity.consumed(requested.get(dimension))
            used = shares.consumed.get(dimension, 0) if shares is not None else 0
            if amount is None or used + amount > capacity.value:
                return None
            consumed[dimension] = amount
        return consumed

    def counters_suffice(self, device: SlicedDevice) -> bool:
        """Whether the pool's counters suffice for the device. A shared device uses them once."""
        if not device.counters or device in self._shares:
            return True
        limits = self.inventory.counters(device.pool_key)
        used = self._counters_used.get(device.pool_key, {})
        return all(used.get(key, 0) + amount <= limits.get(key, 0) for key, amount in device.counters.items())

    # --- changes ---
    def take(self, pick: Pick) -> None:
        device = pick.device
        if pick.admin_access:
            return
        if device.shared:
            shares = self._shares.get(device)
            if shares is None:
                shares = self._shares[device] = _SharedUse()
                self._use_counters(device, 1)
            shares.users += 1
            for dimension, amount in pick.consumed.items():
                shares.consumed[dimension] = shares.consumed.get(dimension, 0) + amount
        else:
            number = self._taken[device] = self._taken.get(device, 0) + 1
            if number == 1:
                self._use_counters(device, 1)
        self._changed(device)

    def release(self, pick: Pick) -> None:
        """Undoes a ``take``."""
        device = pick.device
        if pick.admin_access:
            return
        if device.shared:
            shares = self._shares[device]
            shares.users -= 1
            for dimension, amount in pick.consumed.items():
                shares.consumed[dimension] -= amount
            if not shares.users:
                del self._shares[device]
                self._use_counters(device, -1)
        else:
            self._taken[device] -= 1
            if not self._taken[device]:
                del self._taken[device]
                self._use_counters(device, -1)
        self._changed(device)

    def take_allocated(self, results: Iterable[dra.DeviceResult]) -> None:
        """Takes the devices of an allocation that exists in the cluster, except devices that are no longer published.
        Raises QuantityError if an amount is malformed; then it takes nothing."""
        picks = []
        for result in results:
            device = self.inventory.by_id.get((result.driver, result.pool, result.device))
            if device is not None and not result.admin_access:
                consumed = {name: nano(amount) for name, amount in (result.consumed_capacity or {}).items()}
                picks.append(Pick(device, _EXISTING, consumed))
        for pick in picks:
            self.take(pick)

    def _use_counters(self, device: SlicedDevice, sign: int) -> None:
        if device.counters:
            used = self._counters_used.setdefault(device.pool_key, {})
            for key, amount in device.counters.items():
                used[key] = used.get(key, 0) + sign * amount

    def _changed(self, device: SlicedDevice) -> None:
        key = device.pool_key
        self._versions[key] = self._versions.get(key, 0) + 1


_EXISTING: Final = Alternative(dra.DeviceSubRequest(), "", "", -1, (), {})
"""The request of existing allocations, of which only the devices are relevant."""
