"""Preparations of Pods with unbound claims: each step, while other clients change the objects."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Wait
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.preparations import (
    CheckNodeAffinity,
    bind_preparations,
    provision_preparation,
)
from tests.builders import Raw
from tests.unit.plugins.predicates.volumes.claims import ZONE, claim, volume

NOW = 0.0
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"


def a_claim(annotations: dict[str, str] | None = None, *, uid: str = "u1", phase: str = "Pending", **rest: Any) -> Any:
    raw = claim("c", annotations=annotations, **rest)
    return msgspec.convert(
        {**raw, "metadata": {**raw["metadata"], "uid": uid}, "status": {"phase": phase}}, PersistentVolumeClaim
    )


def a_volume(claim_ref: Raw | None = None, **rest: Any) -> Any:
    return msgspec.convert(volume("v", claimRef=claim_ref, **rest), PersistentVolume)


def gone(obj: Any) -> Any:
    obj.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    return obj


def a_node(zone: str = "a") -> Node:
    return Node(metadata=ObjectMeta(name="n1", labels={ZONE: zone}))


def bind() -> Preparation:
    return bind_preparations(a_claim(), "v", 600)[0]


def wait() -> Preparation:
    return bind_preparations(a_claim(), "v", 600)[1]


def provision() -> Preparation:
    return provision_preparation(a_claim(), "n1", a_node(), 600)


OURS = {"namespace": "default", "name": "c", "uid": "u1"}


# --- existing volumes ---
def test_binding_an_available_volume_sets_its_claim_ref_and_the_controller_annotation() -> None:
    step = bind().step(a_volume(), NOW)

    assert isinstance(step, PreparationPatch)
    assert step.body["spec"]["claimRef"].items() >= OURS.items()
    assert step.body["metadata"] == {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}


def test_binding_a_prebound_volume_sets_no_controller_annotation() -> None:
    step = bind().step(a_volume({"namespace": "default", "name": "c"}), NOW)

    assert isinstance(step, PreparationPatch) and "metadata" not in step.body


def test_a_volume_whose_claim_ref_names_the_claim_needs_no_write() -> None:
    assert bind().step(a_volume(OURS), NOW) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, 'persistentvolume "v" not found'),
        (a_volume({"namespace": "default", "name": "other", "uid": "u2"}), "is bound to claim default/other"),
        (a_volume({"namespace": "default", "name": "c", "uid": "u0"}), "is bound to claim default/c"),
        (gone(a_volume()), "is being deleted"),
    ],
)
def test_a_volume_that_is_bound_to_another_claim_or_deleted_fails_the_preparation(found: Any, why: str) -> None:
    step = bind().step(found, NOW)

    assert isinstance(step, Fail) and why in step.message


def test_a_claim_ref_that_was_reset_is_not_written_again() -> None:
    assert bind().follow_up(a_volume(), NOW) == Fail('ClaimRef got reset for pv "v"')
    assert bind().follow_up(a_volume(OURS), NOW) is None


def test_the_preparation_waits_until_the_claim_is_bound_to_the_volume() -> None:
    assert wait().step(a_claim(), NOW) == Wait("persistentvolumeclaim default/c to be bound")
    assert isinstance(wait().step(a_claim(volumeName="v"), NOW), Wait)
    assert wait().step(a_claim(BOUND, volumeName="v"), NOW) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "not found"),
        (a_claim(uid="u2"), "not found"),
        (gone(a_claim()), "is being deleted"),
        (a_claim(phase="Lost"), "bound to non-existent persistentvolume"),
        (a_claim(volumeName="other"), "is bound to other, not v"),
    ],
)
def test_a_claim_that_can_no_longer_be_bound_fails_the_preparation(found: Any, why: str) -> None:
    step = wait().step(found, NOW)

    assert isinstance(step, Fail) and why in step.message


# --- provisioned volumes ---
def test_provisioning_starts_with_the_selected_node_annotation_on_the_claim() -> None:
    assert provision().step(a_claim(), NOW) == PreparationPatch({"metadata": {"annotations": {SELECTED: "n1"}}})
    assert isinstance(provision().step(a_claim({SELECTED: "n1"}), NOW), Wait)


def test_provisioning_fails_when_the_selected_node_is_removed_or_changed() -> None:
    assert provision().follow_up(a_claim(), NOW) == Fail('provisioning failed for PVC "c"')
    assert provision().step(a_claim({SELECTED: "n2"}), NOW) == Fail('provisioning failed for PVC "c"')


def test_a_provisioned_volume_must_be_accessible_from_the_pods_node() -> None:
    check = provision().step(a_claim({**BOUND, SELECTED: "n1"}, volumeName="v"), NOW)

    assert isinstance(check, CheckNodeAffinity) and check.name == "v"
    assert isinstance(check.step(None, NOW), Wait)
    assert check.step(a_volume(), NOW) is None
    assert check.step(a_volume(zone="a"), NOW) is None
    assert check.step(a_volume(zone="b"), NOW) == Fail('pv "v" node affinity doesn\'t match node "n1"')


def test_the_writes_are_not_undone_when_the_pod_is_not_bound() -> None:
    assert bind().undo(a_volume(OURS), NOW) is None
    assert provision().undo(a_claim({SELECTED: "n1"}), NOW) is None
