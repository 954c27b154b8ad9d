"""Chips that fail under running Pods, whether or not their jobs restart after faults.

A chip counts while the device plugin reports it as unhealthy, and not while it is reset. Pods use chips whole, share
them, or have virtual NPUs on them.
"""

from collections.abc import Iterator

import numpy as np

from scheduler.api.device_states import IS_UNHEALTHY, DeviceFault
from scheduler.api.names import NPU_CORE
from scheduler.api.task import FINISHED_STATUSES, Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.ascend.chip_states import shares_of
from scheduler.plugins.ascend.masks import NONE, WIDTH, ids_of
from scheduler.plugins.ascend.npu_ledgers import NpuLedgers


def chip_faults(session: Session, ledgers: NpuLedgers) -> Iterator[DeviceFault]:
    """Yields the chips that do not work, for each Pod on their nodes that uses them. Only nodes with a fault are looked
    at one by one."""
    snapshot = session.snapshot
    for resource, ledger in ledgers.whole.items():
        exhausted = ledgers.exhausted(resource, with_virtual=True)
        chips = {**ledgers.chips[resource], **exhausted} if exhausted else ledgers.chips[resource]
        unhealthy = {
            row: mask
            for row in sorted({*np.flatnonzero(ledger.faulty).tolist(), *exhausted} & chips.keys())
            if (mask := chips[row].unusable & ~chips[row].recovering & chips[row].present)
        }
        shares = shares_of(resource, ledgers, ()) if unhealthy else {}
        for row, mask in unhealthy.items():
            name, held, shared = snapshot.nodes.names[row], chips[row].held, shares.get(row, {})
            for task in snapshot.chips.get(name, ()):
                if task.status is TaskStatus.RELEASING or task.status in FINISHED_STATUSES:
                    continue
                used = held.get(task.uid, NONE) | shared.get(task.uid, NONE) | core_chips(task)
                for chip in ids_of(used & mask):
                    yield DeviceFault(name, f"{resource.prefix}{chip}", task, IS_UNHEALTHY)


def core_chips(task: Task) -> int:
    """Returns the mask of the chips of which a Pod uses AI cores (``0-vir02``; ``0,1`` for whole chips)."""
    mask = NONE
    text = task.annotations.get(NPU_CORE, "") if task.record is None else task.record.chips.get(NPU_CORE, "")
    for part in text.split(",") if text else ():
        number = part.partition("-")[0]
        if number.isascii() and number.isdecimal() and len(number) < 3 and int(number) < WIDTH:
            mask |= 1 << int(number)
    return mask
