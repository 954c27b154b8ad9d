"""Builders of nodes, device information and chip lists for the tests of the Ascend plugin."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.api.names import ASCEND_910
from scheduler.framework.session import Session
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.plugin import Ascend
from tests.builders import Raw, World, configuration, group, node, pod

CONFIGURATION = configuration(["priority", "gang"], ["ascend", "binpack"])
NODE = "64c+512Gi"


def names(ids: Iterable[int]) -> str:
    return ",".join(f"Ascend910-{i}" for i in ids)


def state(left: int, right: int) -> list[int]:
    """Returns free chip ids with these numbers in each ring: the highest ids, so that tests detect the lowest free
    id."""
    return [*range(4 - left, 4), *range(8 - right, 8)]


def mask(ids: Iterable[int]) -> int:
    return sum(1 << i for i in ids)


def npu_node(
    name: str,
    chips: int | str = 8,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Raw:
    raw = node(name, f"{NODE}+{ASCEND_910}={chips}", labels=labels)
    raw["metadata"]["annotations"] = dict(annotations or {})
    return raw


def device_info(node_name: str, free: Any, *, wrapped: bool = True, **more: Any) -> Raw:
    """The device plugin's ConfigMap; ``more``: ``Unhealthy=[1]``, ``NetworkUnhealthy=[2]``, ``Recovering=[3]``.

    Lists of ids become chip lists; other values are not changed.
    """
    lists = {ASCEND_910: free, **{f"{ASCEND_910}-{key}": value for key, value in more.items()}}
    devices: Any = {
        "DeviceList": {key: names(value) if isinstance(value, list) else value for key, value in lists.items()},
        "UpdateTime": 1,
    }
    return config_map(node_name, json.dumps({"DeviceInfo": devices} if wrapped else devices))


def config_map(node_name: str, text: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"mindx-dl-deviceinfo-{node_name}", "namespace": "kube-system"},
        "data": {"DeviceInfoCfg": text},
    }


def npu_pod(name: str, chips: int | str, group: str = "", **rest: Any) -> Raw:
    return pod(name, f"1c+1Gi+{ASCEND_910}={chips}", group, **rest)


def job(name: str, chips: int | str, number: int = 1, **rest: Any) -> list[Raw]:
    """A gang of ``number`` Pods with ``chips`` chips each."""
    return [group(name, minimum=number), *(npu_pod(f"{name}-{i}", chips, name, **rest) for i in range(number))]


def chips_of(world: World) -> dict[str, tuple[str, list[int]]]:
    """Maps each Pod to the (node, chip ids) of the bindings of the last session."""
    result = {}
    for bind in world.decisions.binds:
        listed = bind.annotations.get(ASCEND_910, "")
        result[bind.task.name] = (
            bind.node,
            [int(name.removeprefix("Ascend910-")) for name in listed.split(",") if name],
        )
    return result


def plugin_of(session: Session) -> Ascend:
    return next(p for p in session.plugins if isinstance(p, Ascend))


def ledger_of(session: Session, resource: str = ASCEND_910) -> ChipLedger:
    return plugin_of(session).ledgers.whole[ChipResource(resource)]


def refusal_of(name: str, *objects: Raw | list[Raw]) -> str:
    """Returns why a job is not valid, or ""."""
    session = World(*objects).session(CONFIGURATION)
    refusal = session.job_valid(session.jobs[f"default/{name}"])
    return "" if refusal is None else refusal.message
