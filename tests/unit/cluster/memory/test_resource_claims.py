"""The ResourceClaim controller of a simulation."""

from typing import Any

from scheduler.api.kinds import POD, RESOURCE_CLAIM
from scheduler.api.names import CLAIM_FINALIZER, POD_CLAIM_NAME
from scheduler.cluster.memory import MemoryCluster
from scheduler.cluster.memory.resource_claims import sync_claims
from tests.builders import Raw, World, pod
from tests.device_builders import allocated, claim, named, request, template, templated


def cluster(*objects: Raw) -> MemoryCluster:
    return World(*objects).cluster


def claims(made: MemoryCluster) -> list[Any]:
    return made.server.of(RESOURCE_CLAIM)


def allocated_claim(*pods: str, finalizers: bool = True) -> Raw:
    status = {**allocated("n1", "gpu-0"), "reservedFor": [{"resource": "pods", "name": p, "uid": p} for p in pods]}
    raw = claim("c", request(), status=status)
    raw["metadata"]["finalizers"] = [CLAIM_FINALIZER] if finalizers else []
    return raw


def with_uid(raw: Raw, **status: str) -> Raw:
    raw["metadata"]["uid"] = raw["metadata"]["name"]
    raw["status"] |= status
    return raw


def test_a_pod_gets_a_claim_for_each_template_it_names_once() -> None:
    made = cluster(template("t", request(count=2)), pod("p", resourceClaims=templated("t", "t")))

    assert sync_claims(made.server)
    assert not sync_claims(made.server)

    found = claims(made)
    assert [c["metadata"]["annotations"][POD_CLAIM_NAME] for c in found] == ["c0", "c1"]
    assert found[0]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
    pod_now = made.server.of(POD)[0]
    assert [owner["uid"] for c in found for owner in c["metadata"]["ownerReferences"]] == [
        pod_now["metadata"]["uid"]
    ] * 2
    assert [s["resourceClaimName"] for s in pod_now["status"]["resourceClaimStatuses"]] == [
        c["metadata"]["name"] for c in found
    ]


def test_a_missing_template_creates_no_claim() -> None:
    assert not sync_claims(cluster(pod("p", resourceClaims=templated("none"))).server)


def test_a_claim_is_deallocated_when_its_last_pod_has_finished_or_been_deleted() -> None:
    made = cluster(allocated_claim("p", "gone"), with_uid(pod("p", on="n1", resourceClaims=named("c"))))

    assert sync_claims(made.server)
    assert [r["uid"] for r in claims(made)[0]["status"]["reservedFor"]] == ["p"]
    assert claims(made)[0]["status"]["allocation"]

    made = cluster(allocated_claim("p"), with_uid(pod("p", on="n1", resourceClaims=named("c")), phase="Succeeded"))
    assert sync_claims(made.server)
    assert claims(made)[0]["status"] == {}
    assert claims(made)[0]["metadata"]["finalizers"] == []


def test_a_claim_allocated_without_the_finalizer_stays_allocated() -> None:
    assert not sync_claims(cluster(allocated_claim(finalizers=False)).server)


def test_a_claim_is_deleted_with_the_pod_that_owns_it() -> None:
    made = cluster(template("t", request()), pod("p", on="n1", resourceClaims=templated("t")))
    sync_claims(made.server)
    raw = made.server.of(POD)[0]

    made.server.update(POD, "default", "p", {**raw, "status": {**raw["status"], "phase": "Succeeded"}})

    assert sync_claims(made.server)
    assert claims(made) == []
