"""The writes to a claim before its Pod is bound, and how they are undone."""

from typing import Any

import msgspec
import pytest

from scheduler.api import dra
from scheduler.api.kinds import RESOURCE_CLAIM
from scheduler.api.names import CLAIM_FINALIZER
from scheduler.api.preparation import Fail, PreparationPatch, Step, Wait
from scheduler.plugins.predicates.dynamic_resources.allocation import (
    CONDITIONS_TIMEOUT,
    ClaimReservation,
    Consumer,
    timeout,
)
from tests.builders import Raw
from tests.device_builders import allocated

NOON = 1577880000.0
READY = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def allocation(*devices: str, **result: Any) -> dra.Allocation:
    given = msgspec.convert(allocated("n1", *(devices or ("gpu-0",)))["allocation"], dra.Allocation)
    for entry in given.devices.results or ():
        for name, value in result.items():
            setattr(entry, name, value)
    return given


def found(finalizers: list[str] | None = None, **status: Any) -> dra.ResourceClaim:
    meta: Raw = {"name": "c", "namespace": "default", "uid": "u", "finalizers": finalizers}
    return msgspec.convert({"metadata": meta, "status": status}, dra.ResourceClaim)


def held(*pods: str, ready: dict[str, str] | None = None, since: str = "2020-01-01T12:00:00Z") -> dra.ResourceClaim:
    """An allocated claim, reserved for Pods. ``ready``: the true conditions of its device."""
    status = allocated("n1", "gpu-0")
    status["allocation"]["allocationTimestamp"] = since
    status["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in pods]
    if ready is not None:
        status["allocation"]["devices"]["results"][0] |= READY
        conditions = [{"type": kind, "status": "True", "message": text} for kind, text in ready.items()]
        status["devices"] = [
            {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "conditions": conditions},
        ]
    return found([CLAIM_FINALIZER], **status)


def reservation(given: dra.Allocation | None, *pods: str) -> ClaimReservation:
    return ClaimReservation(
        kind=RESOURCE_CLAIM,
        namespace="default",
        name="c",
        timeout=60,
        uid="u",
        allocation=given,
        consumers=tuple(Consumer(name, f"uid-{name}") for name in pods or ("p",)),
    )


def message(step: Step) -> str:
    assert isinstance(step, Fail)
    return step.message


# --- step ---
def test_the_finalizer_is_written_first() -> None:
    step = reservation(allocation()).step(found(), NOON)

    assert step == PreparationPatch({"metadata": {"finalizers": [CLAIM_FINALIZER]}}, strategic=True)


def test_allocation_and_reservation_are_written_together() -> None:
    step = reservation(allocation()).step(found([CLAIM_FINALIZER]), NOON)

    assert isinstance(step, PreparationPatch)
    assert (step.subresource, step.strategic) == ("status", True)
    status = step.body["status"]
    assert status["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert status["allocation"]["allocationTimestamp"] == "2020-01-01T12:00:00Z"
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]


def test_a_claim_that_is_allocated_and_reserved_needs_no_write() -> None:
    assert reservation(allocation()).step(held("p"), NOON) is None
    assert reservation(None).step(held("p", "q"), NOON) is None


def test_a_shared_claim_is_reserved_for_all_consumers_that_are_missing() -> None:
    step = reservation(allocation(), "p", "q", "r").step(held("q"), NOON)

    assert isinstance(step, PreparationPatch)
    assert [reference["name"] for reference in step.body["status"]["reservedFor"]] == ["p", "r"]


def test_a_claim_is_reserved_for_at_most_the_pods_that_its_status_can_list() -> None:
    many = held(*(f"p{i}" for i in range(256)))

    assert "257 Pods, the limit is 256" in message(reservation(None, "q").step(many, NOON))


@pytest.mark.parametrize(
    ("claim", "given", "words"),
    [
        (None, allocation(), "ResourceClaim default/c is gone"),
        (msgspec.convert({"metadata": {"uid": "other"}}, dra.ResourceClaim), allocation(), "is gone"),
        (held("p"), allocation("gpu-1"), "got allocated elsewhere"),
        (found(), None, "got deallocated elsewhere"),
    ],
)
def test_a_claim_that_was_changed_after_the_decision_fails(
    claim: dra.ResourceClaim | None, given: dra.Allocation | None, words: str
) -> None:
    assert words in message(reservation(given).step(claim, NOON))


def test_a_claim_that_is_being_deleted_fails() -> None:
    claim = held("p")
    claim.metadata.deletion_timestamp = "2020-01-01T12:00:00Z"

    assert "got deleted in the meantime" in message(reservation(allocation()).step(claim, NOON))


# --- binding conditions ---
def test_the_preparation_waits_for_the_binding_conditions_of_the_device() -> None:
    step = reservation(allocation()).step(held("p", ready={}), NOON)
    assert isinstance(step, Wait)
    assert "to be attached" in step.what

    assert reservation(allocation()).step(held("p", ready={"attached": ""}), NOON) is None


def test_a_binding_failure_condition_fails_with_the_drivers_message() -> None:
    step = reservation(allocation()).step(held("p", ready={"broken": "no cable"}), NOON)

    assert "broken: no cable" in message(step)


@pytest.mark.parametrize(("ready", "since"), [({"broken": "x"}, NOON), ({}, NOON - CONDITIONS_TIMEOUT - 1)])
def test_an_earlier_allocation_whose_conditions_fail_or_time_out_is_removed(
    ready: dict[str, str], since: float
) -> None:
    claim = held("p", ready=ready, since="2020-01-01T11:49:00Z" if since < NOON else "2020-01-01T12:00:00Z")

    step = reservation(None).step(claim, NOON)

    assert step == PreparationPatch(
        {"status": {"allocation": None, "reservedFor": None}}, strategic=True, subresource="status"
    )


def test_an_allocation_that_other_pods_use_is_not_removed() -> None:
    assert "broken" in message(reservation(None).step(held("p", "q", ready={"broken": "x"}), NOON))


def test_devices_with_binding_conditions_have_a_longer_timeout() -> None:
    assert timeout(allocation()) < timeout(allocation(binding_conditions=["attached"])) == CONDITIONS_TIMEOUT


# --- undo ---
def test_undo_deallocates_the_claim_of_its_last_user() -> None:
    undone = reservation(allocation()).undo(held("p"), NOON)

    assert undone is not None
    assert undone.body == {"status": {"allocation": None, "reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}}


def test_undo_keeps_an_allocation_that_others_use_or_that_was_made_before() -> None:
    gone = {"status": {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}}

    for undone in (reservation(allocation()).undo(held("p", "q"), NOON), reservation(None).undo(held("p"), NOON)):
        assert undone is not None
        assert undone.body == gone


def test_undo_writes_nothing_if_nothing_was_written() -> None:
    assert reservation(allocation()).undo(found([CLAIM_FINALIZER]), NOON) is None
