"""ResourceClaims in the cache: which classes of Pods they split, and when."""

from typing import Any

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from scheduler.api.task import PodClaim, Task, TaskStatus
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, group, node, pod
from tests.device_builders import allocated, claim, request


def cache(*objects: Raw) -> ClusterCache:
    made = ClusterCache([NAME])
    feed(made, node("n1"), group("g"), *objects)
    return made


def worker(name: str, made: str | None = "", **rest: Any) -> Raw:
    """A Pod with a claim from a template. ``made``: name of the claim; "" before it is created."""
    raw = pod(name, "1c", "g", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}], **rest)
    if made != "":
        raw["status"]["resourceClaimStatuses"] = [{"name": "gpu", **({"resourceClaimName": made} if made else {})}]
    return raw


def own(name: str, pod: str, *requests: Raw, **meta: Any) -> Raw:
    raw = claim(name, *(requests or (request(),)))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-Pod-{pod}", "controller": True}
    raw["metadata"] |= {"ownerReferences": [owner], **meta}
    return raw


def task(made: ClusterCache, name: str) -> Task:
    return next(t for t in made.snapshot(0.0).jobs["default/g"].tasks() if t.name == name)


def known(made: ClusterCache, name: str) -> PodClaim:
    (found,) = task(made, name).cls.device_claims
    return found


def test_pods_whose_own_claims_have_equal_requests_share_a_class() -> None:
    made = cache(own("c1", "p1"), own("c2", "p2"), worker("p1", "c1"), worker("p2", "c2"))

    assert task(made, "p1").cls is task(made, "p2").cls
    assert known(made, "p1").shape


def test_pods_whose_claims_have_different_requests_do_not_share_a_class() -> None:
    made = cache(own("c1", "p1"), own("c2", "p2", request(count=2)), worker("p1", "c1"), worker("p2", "c2"))

    assert task(made, "p1").cls is not task(made, "p2").cls


def test_a_pod_is_classified_again_when_its_claim_is_created_changed_or_deleted() -> None:
    made = cache(worker("p1", "c1"))
    assert known(made, "p1").problem == "ResourceClaim not found"

    feed(made, own("c1", "p1"))
    assert known(made, "p1").shape

    feed(made, {**own("c1", "p1"), "status": allocated("n1", "gpu-0")})
    assert known(made, "p1") == PodClaim("gpu", claim="c1")

    made.delete(RESOURCE_CLAIM, "default", "c1")
    assert known(made, "p1").problem == "ResourceClaim not found"


def test_the_order_of_events_does_not_matter() -> None:
    first = cache(own("c1", "p1"), worker("p1"), worker("p1", "c1"))
    second = cache(worker("p1"), worker("p1", "c1"), own("c1", "p1"))

    assert known(first, "p1") == known(second, "p1")


def test_the_problem_of_an_unusable_claim_is_reported() -> None:
    assert known(cache(worker("p1")), "p1").problem == "ResourceClaim not created yet"
    going = own("c1", "p1", deletionTimestamp="2020-01-01T00:00:00Z")
    assert known(cache(going, worker("p1", "c1")), "p1").problem == "ResourceClaim is being deleted"
    assert "not created for the Pod" in known(cache(own("c1", "p2"), worker("p1", "c1")), "p1").problem


def test_an_entry_that_needs_no_claim_has_none() -> None:
    assert task(cache(worker("p1", None)), "p1").cls.device_claims == ()


def test_claims_do_not_split_the_classes_of_pods_on_nodes() -> None:
    made = cache(own("c1", "p1"), own("c2", "p2", request(count=2)))
    feed(made, worker("p1", "c1", on="n1"), worker("p2", "c2", on="n1"))

    assert task(made, "p1").cls is task(made, "p2").cls
    assert task(made, "p1").device_claims == {"gpu": "c1"}


def test_a_binding_pod_stays_in_its_class_until_its_binding_fails() -> None:
    made = cache(own("c1", "p1"), worker("p1", "c1"))
    before = task(made, "p1")
    bind = Bind(before, "n1", {})
    made.assume(Decisions(binds=[bind]))

    feed(made, {**own("c1", "p1"), "status": allocated("n1", "gpu-0")}, worker("p1", "c1", labels={"new": "label"}))
    assert task(made, "p1").status is TaskStatus.BINDING
    assert task(made, "p1").cls is before.cls

    made.bind_failed(bind)
    assert known(made, "p1") == PodClaim("gpu", claim="c1")


def test_slices_classes_and_claims_are_in_the_snapshot() -> None:
    made = cache(own("c1", "p1"))

    snapshot = made.snapshot(0.0)

    assert list(snapshot.objects[RESOURCE_CLAIM]) == ["default/c1"]
    assert (snapshot.objects[RESOURCE_SLICE], snapshot.objects[DEVICE_CLASS]) == ({}, {})
