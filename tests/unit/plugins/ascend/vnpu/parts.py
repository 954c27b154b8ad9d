"""Builders of nodes and Pods with AI cores, for the tests of virtual NPUs."""

import json
from collections.abc import Mapping
from typing import Any

from scheduler.api.names import ASCEND_310P, ASCEND_REAL, NPU_CORE
from scheduler.framework.session import Session
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from tests.builders import Raw, World, group, node, pod
from tests.unit.plugins.ascend.chips import config_map, plugin_of

KIND = {"ring-controller.atlas": "ascend-310P"}


def core_node(name: str, chips: int = 2, *, labels: Mapping[str, str] | None = None, whole: int = 0) -> Raw:
    """A node of Ascend 310P chips with eight AI cores; ``whole``: chips that it offers by their own resource."""
    kind = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8", **(labels or {})}
    number = int(kind["servertype"].split("-")[1])
    own = f"+{ASCEND_310P}={whole}" if whole else ""
    return node(name, f"64c+512Gi+{NPU_CORE}={chips * number}{own}", labels=kind)


def core_info(name: str, free: Any, unhealthy: list[int] | None = None) -> Raw:
    """The device plugin's ConfigMap; ``free``: a list of numbers, or any text."""
    lists = {
        ASCEND_310P: names(free) if isinstance(free, list) else free,
        f"{ASCEND_310P}-Unhealthy": names(unhealthy or []),
    }
    return config_map(name, json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}))


def names(ids: list[int]) -> str:
    return ",".join(f"Ascend310P-{i}" for i in ids)


def core_pod(name: str, cores: int, job_name: str = "", *, labels: Mapping[str, str] | None = None, **rest: Any) -> Raw:
    raw = pod(name, f"1c+1Gi+{NPU_CORE}={cores}", job_name, labels={**KIND, **(labels or {})}, **rest)
    resources = raw["spec"]["containers"][0]["resources"]
    resources["limits"] = dict(resources["requests"])
    return raw


def core_job(name: str, cores: int, number: int = 1, **rest: Any) -> list[Raw]:
    whole = group(name, minimum=number)
    return [whole, *(core_pod(f"{name}-{i}", cores, name, **rest) for i in range(number))]


def running(name: str, cores: int, listed: str, real: str = "", on: str = "n", **rest: Any) -> list[Raw]:
    """A Pod that another scheduler bound, with its chips as its annotation lists them."""
    annotations = {NPU_CORE: listed, **({ASCEND_REAL: real} if real else {})}
    held = core_pod(f"{name}-0", cores, name, on=on, annotations=annotations, **rest)
    return [group(name, minimum=1, phase="Running"), held]


def cores_of(world: World) -> dict[str, str]:
    """Maps each Pod to the node and value of ``huawei.com/npu-core`` of the bindings of the last session."""
    return {bind.task.name: f"{bind.node}:{bind.annotations.get(NPU_CORE)}" for bind in world.decisions.binds}


def part_ledger_of(session: Session) -> PartLedger:
    ledger = plugin_of(session).ledgers.parts
    assert ledger is not None
    return ledger
