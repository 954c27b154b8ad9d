"""A plain Pod has its PodGroup at once, and it is the one that the PodGroup controller creates."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.kinds import BATCH_JOB, NAMESPACE, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind
from scheduler.api.names import DEFAULT_QUEUE, GROUP_NAME, QUEUE_NAME_ANNOTATION
from scheduler.api.objects import KubeObject, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.cluster.kube.scheduler.derived_groups import DerivedGroups
from scheduler.controllers.effects import Create
from scheduler.controllers.podgroup import PodGroupController
from scheduler.controllers.store import Store
from tests.builders import feed, node, queue
from tests.unit.cluster.kube.fake_api import until
from tests.unit.cluster.kube.scheduler.test_daemon import started

Raw = dict[str, Any]
NAME = "volcano-py"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


class Cache:
    """Stores all objects that it receives."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Kind, str], KubeObject] = {}
        """Maps a kind and name to an object."""
        self.groups = DerivedGroups(self, [NAME], lambda key: bool(self.uid(key.partition("/")[2])))
        self.create(NAMESPACE, "default")

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        self.objects[kind, obj.metadata.name] = obj

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.objects.pop((kind, name), None)

    def uid(self, group: str) -> str:
        found = self.objects.get((POD_GROUP, group))
        return found.metadata.uid if found is not None else ""

    def create(self, kind: Kind, name: str, spec: Raw | None = None, status: Raw | None = None, **meta: Any) -> None:
        """The watch delivers an object."""
        assert kind.struct is not None
        self.groups.upsert(kind, read(kind, name, spec, status, **meta))

    def create_pod(self, name: str = "p", spec: Raw | None = None, status: Raw | None = None, **meta: Any) -> None:
        self.create(POD, name, {"schedulerName": NAME, **(spec or {})}, status, **meta)

    def group_of(self, pod: str = "p") -> str:
        return (self.objects[POD, pod].metadata.annotations or {}).get(GROUP_NAME, "")

    def names(self) -> list[str]:
        """The PodGroups that the scheduler knows."""
        return [name for kind, name in self.objects if kind is POD_GROUP]


def read(kind: Kind, name: str, spec: Raw | None = None, status: Raw | None = None, **meta: Any) -> KubeObject:
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **meta}
    if kind is not NAMESPACE:
        metadata["namespace"] = "default"
    obj: KubeObject = msgspec.convert(
        {"metadata": metadata, "spec": spec or {}, "status": status or {}}, kind.struct or KubeObject
    )
    return obj


def owned_by(kind: Kind, name: str) -> list[Raw]:
    return [{"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": f"uid-{name}", "controller": True}]


OTHER = Kind("Trainer", "example.com/v1", "trainers", True)
REQUESTS = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2", "example.com/card": "1"}}}]}


@pytest.mark.parametrize("owner", [None, REPLICA_SET, STATEFUL_SET, OTHER])
@pytest.mark.parametrize("spec", [{}, REQUESTS, {"priorityClassName": "high"}])
def test_the_pod_group_of_a_plain_pod_is_the_one_that_the_controller_creates(owner: Kind | None, spec: Raw) -> None:
    cache, store = Cache(), Store()
    meta: Raw = {"labels": {"app": "web"}, "annotations": {"example.com/note": "x"}}
    if owner is not None:
        meta["ownerReferences"] = owned_by(owner, "web")
        if owner is not OTHER:
            cache.create(owner, "web", {"replicas": 3})
            store.upsert(owner, read(owner, "web", {"replicas": 3}))
    cache.create_pod(spec=spec, **meta)

    pod = read(POD, "p", {"schedulerName": NAME, **spec}, **meta)
    assert isinstance(pod, Pod)
    store.upsert(POD, pod)
    controller = PodGroupController(store, [NAME])
    (key,) = controller.observe(POD, None, pod, 0.0)
    (create,) = [e for stage in controller.plan(key, 0.0).stages for e in stage if isinstance(e, Create)]
    create.manifest["spec"].setdefault("queue", DEFAULT_QUEUE)  # as the definition of PodGroups says
    created = msgspec.convert(create.manifest, PodGroup)
    created.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    assert cache.objects[POD_GROUP, created.metadata.name] == created
    assert cache.group_of() == key[1]


@pytest.mark.parametrize(
    "meta",
    [
        {"annotations": {QUEUE_NAME_ANNOTATION: "research"}},
        {"annotations": {"volcano.sh/preemptable": "true"}},
        {"labels": {"volcano.sh/preemptable": "true"}},
        {"annotations": {"volcano.sh/jdb-min-available": "1"}},
        {"annotations": {"volcano.sh/network-topology-mode": "hard"}},
        {"ownerReferences": owned_by(BATCH_JOB, "job")},
        {"ownerReferences": owned_by(REPLICA_SET, "not-watched-yet")},
        {"ownerReferences": owned_by(REPLICA_SET, "annotated")},
    ],
)
def test_a_pod_about_whose_pod_group_more_decides_waits_for_the_controller(meta: Raw) -> None:
    cache = Cache()
    cache.create(REPLICA_SET, "annotated", annotations={MIN_MEMBER: "2"})
    cache.create_pod(**meta)

    assert (cache.group_of(), cache.names()) == ("", [])


def test_the_uid_of_a_workload_in_another_namespace_makes_no_pod_plain() -> None:
    cache = Cache()
    cache.create(NAMESPACE, "other")
    cache.create(REPLICA_SET, "web", {"replicas": 3})
    pod = read(POD, "p", {"schedulerName": NAME}, ownerReferences=owned_by(REPLICA_SET, "web"))
    pod.metadata.namespace = "other"
    cache.groups.upsert(POD, pod)
    assert (cache.group_of(), cache.names()) == ("", [])


def test_a_malformed_request_is_left_to_the_controller_which_reports_it() -> None:
    cache = Cache()
    cache.create_pod(spec={"containers": [{"name": "main", "resources": {"requests": {"cpu": "many"}}}]})
    assert (cache.group_of(), cache.names()) == ("", [])


def test_a_namespace_that_chooses_a_queue_or_is_not_known_has_no_plain_pods() -> None:
    cache = Cache()
    cache.create(NAMESPACE, "default", annotations={QUEUE_NAME_ANNOTATION: "research"})
    cache.create_pod("first")
    cache.create(NAMESPACE, "default")
    cache.create_pod("second")
    cache.groups.delete(NAMESPACE, "", "default")
    cache.create_pod("third")

    assert [cache.group_of(name) for name in ("first", "second", "third")] == ["", "podgroup-uid-second", ""]


@pytest.mark.parametrize(
    ("spec", "status", "meta"),
    [
        ({"schedulerName": "default-scheduler"}, {}, {}),
        ({}, {"phase": "Succeeded"}, {}),
        ({}, {}, {"annotations": {GROUP_NAME: "mine"}}),
    ],
)
def test_pods_of_other_schedulers_that_ended_or_name_a_pod_group_pass_unchanged(
    spec: Raw, status: Raw, meta: Raw
) -> None:
    cache = Cache()
    cache.create_pod(spec=spec, status=status, **meta)

    assert cache.objects[POD, "p"] == read(POD, "p", {"schedulerName": NAME, **spec}, status, **meta)
    assert cache.names() == []


def test_the_real_pod_group_stays_whatever_its_pod_shows() -> None:
    cache = Cache()
    cache.create_pod()
    cache.create(POD_GROUP, "podgroup-uid-p", {"minMember": 1, "queue": "chosen"})
    cache.create_pod(status={"phase": "Running"})
    assert cache.uid("podgroup-uid-p") == "uid-podgroup-uid-p"
    assert cache.group_of() == "podgroup-uid-p"

    cache.groups.delete(POD, "default", "p")
    assert cache.names() == ["podgroup-uid-p"]  # until the watch says that it is deleted


def test_a_pod_that_gets_another_pod_group_leaves_the_derived_one() -> None:
    cache = Cache()
    cache.create_pod()
    cache.create_pod(annotations={GROUP_NAME: "other"})
    assert (cache.group_of(), cache.names()) == ("other", [])


def test_a_pod_that_replaces_one_of_the_same_name_has_a_pod_group_of_its_own() -> None:
    cache = Cache()
    cache.create_pod()
    cache.create_pod(uid="uid-new")
    assert (cache.group_of(), cache.names()) == ("podgroup-uid-new", ["podgroup-uid-new"])


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "named pod", "ended pod", "no pod", "group", "no group"]), st.sampled_from(["a", "b"])
    ),
    max_size=12,
)


@given(STEPS)
def test_there_is_a_derived_pod_group_as_long_as_a_pod_is_in_it_and_no_real_one_exists(
    steps: list[tuple[str, str]],
) -> None:
    """Two Pods of the same ReplicaSet."""
    cache, group, real = Cache(), "podgroup-uid-web", False
    cache.create(REPLICA_SET, "web")
    pods: dict[str, bool] = {}
    """Maps a name to whether the Pod is in the derived PodGroup."""
    for step, name in steps:
        owner = owned_by(REPLICA_SET, "web")
        if step == "pod":
            cache.create_pod(name, ownerReferences=owner)
            pods[name] = not real
        elif step == "named pod":
            cache.create_pod(name, ownerReferences=owner, annotations={GROUP_NAME: group})
            pods.setdefault(name, False)
        elif step == "ended pod":
            cache.create_pod(name, status={"phase": "Failed"}, ownerReferences=owner)
            pods[name] = False
        elif step == "no pod":
            cache.groups.delete(POD, "default", name)
            pods.pop(name, None)
        elif step == "group":
            cache.create(POD_GROUP, group)
            real, pods = True, dict.fromkeys(pods, False)
        else:
            if real:
                cache.groups.delete(POD_GROUP, "default", group)
            real = False
        assert (cache.names() == [group]) is (real or any(pods.values()))
        assert bool(cache.uid(group)) is real


def test_a_plain_pod_is_bound_before_its_pod_group_exists_and_nothing_is_written_about_that(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            w.api.answer("POST", "/api.*/events", status=201)
            w.api.answer("PATCH", "/api.*")
            w.api.answer("POST", "/api/v1/namespaces/default/pods/p/binding", status=201)
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            feed(w.cache, [queue("default"), node("n", "4c+4Gi")])
            (sink,) = {i._sink for i in w.daemon._informers._informers if i.source.kind is POD}
            sink.upsert(NAMESPACE, read(NAMESPACE, "default"))
            sink.upsert(POD, read(POD, "p", {"schedulerName": NAME}))
            await until(lambda: w.api.to("POST", ".*/binding"))
            before = w.cycles
            await until(lambda: w.cycles > before)
            w.daemon.process.stop()
            assert await running == 0
            assert not w.api.to("PATCH", ".*/podgroups/.*")
            await until(lambda: w.api.to("POST", ".*/events"))
            assert {call.body["involvedObject"]["kind"] for call in w.api.to("POST", ".*/events")} == {"Pod"}

    asyncio.run(scenario())
