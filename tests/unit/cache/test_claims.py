"""Claims in the cache: how they split classes of Pods, and bindings with preparations."""

from typing import Any

import msgspec

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.kinds import CLAIM, NODE, POD
from scheduler.api.preparation import Preparation
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.api.task import MountedClaim, Task
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, group, node, pod


def token(number: int) -> Raw:
    """The token volume of the service account of a Pod."""
    return {"name": f"kube-api-access-{number}", "projected": {"sources": []}}


def mounting(name: str) -> Raw:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def cache_with(*objects: Raw) -> ClusterCache:
    cache = ClusterCache([NAME])
    feed(cache, node("n1"), group("g"), list(objects))
    return cache


def task(cache: ClusterCache, name: str) -> Task:
    found = cache.task(f"default/{name}")
    assert found is not None
    return found


# --- classes ---
def test_a_token_volume_does_not_split_a_class() -> None:
    cache = cache_with(*(pod(f"p{i}", "1c", "g", volumes=[token(i)]) for i in range(3)))

    assert len({task(cache, f"p{i}").cls.id for i in range(3)}) == 1


def test_pods_with_their_own_claims_share_a_shape_but_not_a_class() -> None:
    cache = cache_with(*(pod(f"p{i}", "1c", "g", volumes=[token(i), mounting(f"c{i}")]) for i in range(3)))

    classes = [task(cache, f"p{i}").cls for i in range(3)]
    assert [cls.claims for cls in classes] == [(MountedClaim(f"c{i}"),) for i in range(3)]
    assert len({cls.id for cls in classes}) == 3
    assert len({cls.shape_id for cls in classes}) == 1


def test_pods_that_share_a_claim_share_a_class() -> None:
    cache = cache_with(*(pod(f"p{i}", "1c", "g", volumes=[mounting("c")]) for i in range(3)))

    assert len({task(cache, f"p{i}").cls.id for i in range(3)}) == 1


def test_the_claim_of_an_ephemeral_volume_is_named_after_its_pod_and_belongs_to_it() -> None:
    cache = cache_with(pod("p", "1c", "g", volumes=[{"name": "scratch", "ephemeral": {}}]))

    assert task(cache, "p").cls.claims == (MountedClaim("p-scratch", "uid-Pod-p"),)


def test_reclassification_by_a_new_selector_keeps_the_claims_of_pods() -> None:
    cache = cache_with(pod("p", "1c", "g", labels={"app": "x"}, volumes=[mounting("c")]))
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

    feed(
        cache,
        pod("q", "1c", "g", topologySpreadConstraints=[{**spread, "labelSelector": {"matchLabels": {"app": "x"}}}]),
    )
    cache.snapshot(0)

    cls = task(cache, "p").cls
    assert (cls.labels, cls.claims) == ({"app": "x"}, (MountedClaim("c"),))


# --- bindings that wait ---
def waiting(cache: ClusterCache) -> Bind:
    wanted = Preparation(kind=CLAIM, namespace="default", name="c", timeout=1.0)
    bind = Bind(task(cache, "p"), "n1", {}, (wanted,), 1)
    cache.assume(Decisions(binds=[bind]))
    return bind


def test_a_binding_with_preparations_is_in_snapshots_until_the_watch_shows_the_pod_bound() -> None:
    cache = cache_with(pod("p", "1c", "g"))
    bind = waiting(cache)

    assert cache.snapshot(0).preparing == (bind,) and cache.is_binding(bind)
    feed(cache, pod("p", "1c", "g", on="n1", phase="Pending"))
    assert cache.snapshot(0).preparing == () and not cache.is_binding(bind)


def test_a_binding_that_failed_or_whose_pod_was_deleted_is_not_in_snapshots() -> None:
    cache = cache_with(pod("p", "1c", "g"))
    cache.bind_failed(waiting(cache))
    assert cache.snapshot(0).preparing == ()

    bind = waiting(cache)
    cache.delete(POD, "default", "p")
    assert cache.snapshot(0).preparing == () and not cache.is_binding(bind)


def test_a_binding_without_preparations_is_not_among_the_preparing_ones() -> None:
    cache = cache_with(pod("p", "1c", "g"))

    cache.assume(Decisions(binds=[Bind(task(cache, "p"), "n1", {})]))

    assert cache.snapshot(0).preparing == ()


# --- what the server has answered ---
def a_claim(version: int, volume: str = "", uid: str = "u") -> Any:
    meta = {"name": "c", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta, "spec": {"volumeName": volume}}, PersistentVolumeClaim)


def volume_of(cache: ClusterCache) -> str:
    return cache.snapshot(0).objects[CLAIM]["default/c"].spec.volume_name


def test_a_confirmed_version_counts_until_the_watch_delivers_it() -> None:
    cache = ClusterCache([NAME])
    cache.upsert(CLAIM, a_claim(5))
    cache.confirm(CLAIM, a_claim(9, "answered"))
    assert volume_of(cache) == "answered"

    cache.upsert(CLAIM, a_claim(7, "late"))
    assert volume_of(cache) == "answered"
    cache.upsert(CLAIM, a_claim(9, "answered"))
    cache.upsert(CLAIM, a_claim(8, "restored from a backup"))
    assert volume_of(cache) == "restored from a backup"


def test_a_confirmed_version_of_a_deleted_or_newer_object_is_ignored() -> None:
    cache = ClusterCache([NAME])
    cache.confirm(CLAIM, a_claim(9, "answered"))
    assert not cache.snapshot(0).objects[CLAIM]

    cache.upsert(CLAIM, a_claim(12, "newer"))
    cache.confirm(CLAIM, a_claim(9, "answered"))
    cache.confirm(CLAIM, a_claim(99, "of a namesake", uid="another"))
    assert volume_of(cache) == "newer"


def test_objects_of_stored_kinds_are_found() -> None:
    cache = ClusterCache([NAME])
    cache.upsert(CLAIM, a_claim(1, "v"))

    assert cache.stores(CLAIM) and not cache.stores(NODE) and not cache.stores(POD)
    assert cache.find(CLAIM, "default", "c") is not None
    assert cache.find(CLAIM, "default", "other") is None
