"""Situations of Pods that claim devices by ResourceClaims."""

from typing import Any, Final

from scheduler.api.kinds import NODE, RESOURCE_SLICE, VCJOB
from tests import device_builders as devices
from tests.integration.live.case import HELD, POOL, Case, Raw

_USES: Final = {"claims": [{"name": "c0"}]}


def _class(case: Case) -> Raw:
    made = devices.device_class(case.name, f'device.driver == "{_driver(case)}"')
    made["metadata"]["labels"] = {POOL: case.name}
    return made


def _driver(case: Case) -> str:
    return f"{case.name}.example.com"


def _node(case: Case, name: str, number: int) -> tuple[Raw, Raw]:
    """A node, and the slice with its devices."""
    node = case.node(name, 8)
    full = node["metadata"]["name"]
    made = devices.resource_slice(devices.gpus(number), full, name=full, driver=_driver(case))
    made["metadata"]["labels"] = {POOL: case.name}
    return node, made


def _template(case: Case, number: int = 1) -> Raw:
    made = devices.template("gpus", devices.request(device_class=case.name, count=number))
    made["metadata"]["namespace"] = case.name
    return made


def _claim(case: Case, number: int = 1) -> Raw:
    made = devices.claim("shared", devices.request(device_class=case.name, count=number))
    made["metadata"]["namespace"] = case.name
    return made


def _task(case: Case, name: str, replicas: int, claims: list[Raw], **rest: Any) -> Raw:
    made = case.task(name, replicas, 1, spec={"resourceClaims": claims}, **rest)
    made["template"]["spec"]["containers"][0]["resources"] |= _USES
    return made


def gang_waits_for_devices(case: Case) -> None:
    size = case.random.randint(2, 3)
    job = case.vcjob("big", _task(case, "w", size, devices.templated("gpus")))
    case.add(_class(case), *_node(case, "n1", size - 1), _template(case), job)
    case.waiting = ("job", "big")
    if case.random.random() < 0.5:
        case.advised = True
        return
    larger = {"devices": devices.gpus(size)}
    slice_name = f"{case.name}-n1"
    case.changes = case.random.choice(
        [list(_node(case, "n2", 1)), [case.merge(RESOURCE_SLICE, slice_name, spec=larger)], [case.delete(VCJOB, "big")]]
    )


def gang_waits_for_devices_of_another_job(case: Case) -> None:
    number = case.random.randint(1, 2)
    annotations = HELD if case.random.random() < 0.5 else None
    first = case.vcjob("first", _task(case, "w", 1, devices.templated("gpus"), annotations=annotations))
    second = case.vcjob("second", _task(case, "w", 1, devices.templated("gpus")))
    case.add(_class(case), *_node(case, "n1", number), _template(case, number), first)
    case.then(second)
    case.waiting = ("job", "second")
    case.changes = [case.random.choice([case.delete(VCJOB, "first"), case.command("AbortJob", "first")])]


def job_with_devices_ends(case: Case) -> None:
    outcome = case.random.choice(["succeed", "fail"])
    ended = _task(case, "w", 1, devices.templated("gpus"), annotations={"volcano-py.test/outcome": outcome})
    case.add(_class(case), *_node(case, "n1", 1), _template(case), case.vcjob("short", ended, maxRetry=1))
    case.then(case.vcjob("next", _task(case, "w", 1, devices.templated("gpus"))))
    case.changes = [case.delete(VCJOB, case.random.choice(["short", "next"]))]


def devices_of_a_job_that_terminates(case: Case) -> None:
    job = case.vcjob("first", _task(case, "w", 2, devices.templated("gpus"), annotations=HELD))
    case.add(_class(case), *_node(case, "n1", 2), _template(case), job)
    case.then(case.command(case.random.choice(["RestartJob", "AbortJob"]), "first"))
    case.then(case.vcjob("next", _task(case, "w", 1, devices.templated("gpus"))))
    case.changes = [
        case.merge(NODE, f"{case.name}-n1", spec={"unschedulable": True}),
        case.command("RestartJob", "next"),
    ]


def pods_share_a_claim(case: Case) -> None:
    job = case.vcjob("team", _task(case, "w", 2, devices.named("shared")))
    case.add(_class(case), *_node(case, "n1", 1), *_node(case, "n2", 1), _claim(case), job)
    case.changes = [case.random.choice([case.delete(VCJOB, "team"), case.command("RestartJob", "team")])]


def claim_or_class_comes_later(case: Case) -> None:
    job = case.vcjob("early", _task(case, "w", 1, devices.named("shared")))
    given = [_claim(case), _class(case)]
    case.random.shuffle(given)
    late = given.pop()
    case.add(*_node(case, "n1", 1), *given, job)
    case.waiting = ("job", "early")
    case.changes = [late]


def devices_go(case: Case) -> None:
    job = case.vcjob("train", _task(case, "w", 2, devices.templated("gpus")))
    case.add(_class(case), *_node(case, "n1", 2), _template(case), job)
    case.then(case.delete(RESOURCE_SLICE, f"{case.name}-n1"))
    case.changes = [case.command("RestartJob", "train")]
    if case.random.random() < 0.5:
        case.changes += [_node(case, "n1", 1)[1]]


DEVICES: Final = (
    gang_waits_for_devices,
    gang_waits_for_devices_of_another_job,
    job_with_devices_ends,
    devices_of_a_job_that_terminates,
    pods_share_a_claim,
    claim_or_class_comes_later,
    devices_go,
)
