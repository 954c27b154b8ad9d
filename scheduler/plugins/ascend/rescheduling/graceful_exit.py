"""The ConfigMap ``reset-config-<job>`` beside a job, which its processes watch: ``GracefulExit`` asks them to save and
exit before the Pods are deleted (``subHealthyStrategy: graceExit``). Other components own it; only this field changes.
"""

import hashlib
import json
from typing import Final

from scheduler.api.decisions import ObjectWrite
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import RESET_CONFIG_KEY, RESET_CONFIG_PREFIX
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.plugins.ascend.rescheduling.decision import SUB_HEALTH
from scheduler.plugins.ascend.rescheduling.state import Restart
from scheduler.plugins.support.device_info import DeviceInfoError, json_object

PREFIX: Final = RESET_CONFIG_PREFIX
LABELS: Final = "reset=true"
"""Selector of these ConfigMaps."""
RESET: Final = RESET_CONFIG_KEY
CHECK_CODE: Final = "checkCode"
GRACEFUL_EXIT: Final = "GracefulExit"


def concerns(restart: Restart) -> bool:
    """Whether the processes of the job are asked to exit: its faults are all of sub-health, and it has time."""
    healthy = all(entry.fault == SUB_HEALTH for entry in restart.reasons)
    return healthy and bool(restart.reasons) and not restart.force and not restart.external


def written(config_map: ConfigMap, restart: Restart, problems: list[Malformed]) -> ObjectWrite | None:
    """Returns the write that sets the field while a restart is in progress, and resets it afterwards; None if it is as
    it should be. A ConfigMap that cannot be read is left as it is, and added to ``problems``."""
    meta, wanted = config_map.metadata, 1 if restart.pods else 0
    try:
        document = json_object((config_map.data or {}).get(RESET, ""))
    except DeviceInfoError as error:
        problems.append(Malformed("ConfigMap", meta.namespace, meta.name, f"data[{RESET}]", str(error)))
        return None
    if document.get(GRACEFUL_EXIT, 0) == wanted:
        return None
    text = json.dumps({**document, GRACEFUL_EXIT: wanted}, separators=(",", ":"), ensure_ascii=False)
    data = {RESET: text, CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    version = meta.resource_version
    return ObjectWrite(CONFIG_MAP, meta.namespace, meta.name, {"data": data}, meta.uid, version)
