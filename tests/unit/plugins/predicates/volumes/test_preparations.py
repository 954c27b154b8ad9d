"""What is written before a Pod with unbound claims is bound, step by step, whatever else happens to the objects."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.preparation import Fails, Patch, Preparation, Waits
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.preparations import ReachVolume, by_provisioning, by_volume
from tests.builders import Raw
from tests.unit.plugins.predicates.volumes.stock import ZONE, claim, volume

NOW = 0.0
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"


def a_claim(annotations: dict[str, str] | None = None, *, uid: str = "u1", phase: str = "Pending", **rest: Any) -> Any:
    raw = claim("c", annotations=annotations, **rest)
    return msgspec.convert(
        {**raw, "metadata": {**raw["metadata"], "uid": uid}, "status": {"phase": phase}}, PersistentVolumeClaim
    )


def a_volume(held: Raw | None = None, **rest: Any) -> Any:
    return msgspec.convert(volume("v", claimRef=held, **rest), PersistentVolume)


def gone(obj: Any) -> Any:
    obj.metadata.deletion_timestamp = "2030-01-01T00:00:00Z"
    return obj


def a_node(zone: str = "a") -> Node:
    return Node(metadata=ObjectMeta(name="n1", labels={ZONE: zone}))


def promise() -> Preparation:
    return by_volume(a_claim(), "v", 600)[0]


def wait() -> Preparation:
    return by_volume(a_claim(), "v", 600)[1]


def provision() -> Preparation:
    return by_provisioning(a_claim(), "n1", a_node(), 600)[0]


OURS = {"namespace": "default", "name": "c", "uid": "u1"}


# --- a volume that is there ---
def test_a_free_volume_names_the_claim_and_who_did_it() -> None:
    step = promise().step(a_volume(), NOW)

    assert isinstance(step, Patch)
    assert step.body["spec"]["claimRef"].items() >= OURS.items()
    assert step.body["metadata"] == {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}


def test_a_volume_that_a_person_kept_for_the_claim_stays_theirs() -> None:
    step = promise().step(a_volume({"namespace": "default", "name": "c"}), NOW)

    assert isinstance(step, Patch) and "metadata" not in step.body


def test_a_volume_that_names_the_claim_is_as_it_must_be() -> None:
    assert promise().step(a_volume(OURS), NOW) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, 'persistentvolume "v" not found'),
        (a_volume({"namespace": "default", "name": "other", "uid": "u2"}), "is bound to claim default/other"),
        (a_volume({"namespace": "default", "name": "c", "uid": "u0"}), "is bound to claim default/c"),
        (gone(a_volume()), "is being deleted"),
    ],
)
def test_a_volume_that_is_another_claims_or_gone_ends_it(found: Any, why: str) -> None:
    step = promise().step(found, NOW)

    assert isinstance(step, Fails) and why in step.message


def test_a_volume_that_was_taken_from_the_claim_again_is_not_fought_for() -> None:
    assert promise().follow_up(a_volume(), NOW) == Fails('ClaimRef got reset for pv "v"')
    assert promise().follow_up(a_volume(OURS), NOW) is None


def test_the_claim_is_waited_for_until_it_is_bound_to_that_volume() -> None:
    assert wait().step(a_claim(), NOW) == Waits("persistentvolumeclaim default/c to be bound")
    assert isinstance(wait().step(a_claim(volumeName="v"), NOW), Waits)
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
def test_a_claim_that_cannot_be_bound_to_it_any_more_ends_it(found: Any, why: str) -> None:
    step = wait().step(found, NOW)

    assert isinstance(step, Fails) and why in step.message


# --- a volume that is made ---
def test_a_volume_is_asked_for_by_naming_the_node_on_the_claim() -> None:
    assert provision().step(a_claim(), NOW) == Patch({"metadata": {"annotations": {SELECTED: "n1"}}})
    assert isinstance(provision().step(a_claim({SELECTED: "n1"}), NOW), Waits)


def test_a_provisioner_that_takes_the_node_off_has_failed() -> None:
    assert provision().follow_up(a_claim(), NOW) == Fails('provisioning failed for PVC "c"')
    assert provision().step(a_claim({SELECTED: "n2"}), NOW) == Fails('provisioning failed for PVC "c"')


def test_a_volume_that_was_made_has_to_be_reached_from_the_pods_node() -> None:
    reach = provision().step(a_claim({**BOUND, SELECTED: "n1"}, volumeName="v"), NOW)

    assert isinstance(reach, ReachVolume) and reach.name == "v"
    assert isinstance(reach.step(None, NOW), Waits)
    assert reach.step(a_volume(), NOW) is None
    assert reach.step(a_volume(zone="a"), NOW) is None
    assert reach.step(a_volume(zone="b"), NOW) == Fails('pv "v" node affinity doesn\'t match node "n1"')


def test_what_was_written_stays_when_the_pod_is_not_bound() -> None:
    assert promise().undo(a_volume(OURS), NOW) is None
    assert provision().undo(a_claim({SELECTED: "n1"}), NOW) is None
