"""Pods that the kubelet rejected because the device plugin could not create their virtual NPU.

Such a Pod has never run. The scheduler deletes it, and its owner creates another one, which gets another chip.
"""

from typing import Final

from scheduler.api.names import UNEXPECTED_ADMISSION
from scheduler.api.objects import Pod

_VNPU_FAILURES: Final = ("NPUSegmentFailed", "NoNPUResource")
"""Words of the device plugin: the chip could not be divided, or a chip does not exist."""


def vnpu_failure(pod: Pod) -> str:
    """Returns the kubelet's message about the virtual NPU of a Pod that could not be created; "" for other Pods."""
    status = pod.status
    if status.phase != "Failed" or status.reason != UNEXPECTED_ADMISSION:
        return ""
    return status.message if any(word in status.message for word in _VNPU_FAILURES) else ""
