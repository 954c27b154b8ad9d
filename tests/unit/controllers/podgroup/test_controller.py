"""The controller pg-controller over a cluster in memory."""

from typing import Any

import msgspec
import pytest

from scheduler.api.kinds import (
    BATCH_JOB,
    DAEMON_SET,
    POD,
    POD_GROUP,
    REPLICA_SET,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.objects import ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.api.scheduling import PodGroup, PodGroupSpec
from scheduler.controllers.effects import Create, Patch
from scheduler.controllers.podgroup import PodGroupController
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled, owner, pod, reference

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
GROUP_NAME = "scheduling.k8s.io/group-name"
WEB = "podgroup-uid-web"
RESOURCES_OF_ONE = {"count/pods": "1", "cpu": "1", "pods": "1", "requests.cpu": "1"}
RESOURCES_OF_TWO = {"count/pods": "2", "cpu": "2", "pods": "2", "requests.cpu": "2"}


def controlled() -> Controlled:
    return Controlled(lambda store: [PodGroupController(store, ["volcano"])])


def of(kind: Kind = REPLICA_SET, name: str = "web") -> dict[str, Any]:
    return reference(kind, name)


# --- Pods by themselves ---
def test_a_pod_by_itself_gets_a_pod_group_of_its_own_that_goes_with_it() -> None:
    cluster = controlled()
    cluster.create(pod("plain"))

    group = cluster.groups()["podgroup-uid-plain"]
    assert group["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "plain",
            "uid": "uid-plain",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert "annotations" not in group["metadata"]
    assert "labels" not in group["metadata"]
    assert group["spec"] == {"minMember": 1, "minResources": RESOURCES_OF_ONE, "queue": "default"}
    assert group["status"] == {"phase": "Pending"}
    assert cluster.group_of("plain") == "podgroup-uid-plain"

    cluster.delete(POD, "plain")
    assert cluster.groups() == {}


def test_queue_and_priority_class_come_from_the_pod() -> None:
    cluster = controlled()
    cluster.create(pod("plain", annotations={QUEUE_NAME: "q1"}, priorityClassName="hi"))

    spec = cluster.groups()["podgroup-uid-plain"]["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("q1", "hi")


def test_an_owner_that_does_not_manage_the_pod_is_no_owner_of_its_pod_group() -> None:
    cluster = controlled()
    cluster.create(owner(DAEMON_SET, "web"), pod("plain", reference(DAEMON_SET, "web", controller=False)))

    assert list(cluster.groups()) == ["podgroup-uid-plain"]
    assert cluster.groups()["podgroup-uid-plain"]["metadata"]["ownerReferences"][0]["name"] == "plain"


@pytest.mark.parametrize(
    "left_alone",
    [
        pod("p", scheduler="default-scheduler"),
        pod("p", annotations={GROUP_NAME: "mine"}),
        pod("p", phase="Succeeded"),
        pod("p", phase="Failed"),
    ],
    ids=["of another scheduler", "in a PodGroup", "succeeded", "failed"],
)
def test_a_pod_that_is_not_ours_or_needs_nothing_is_left_alone(left_alone: dict[str, Any]) -> None:
    cluster = controlled()
    cluster.create(left_alone)
    assert cluster.groups() == {}


# --- Pods with owners ---
def test_pods_of_one_replica_set_share_a_pod_group_that_goes_with_the_replica_set() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 3), *(pod(f"web-{i}", of()) for i in range(3)))

    assert list(cluster.groups()) == [WEB]
    group = cluster.groups()[WEB]
    without_holding_up = {key: value for key, value in of().items() if key != "blockOwnerDeletion"}
    assert group["metadata"]["ownerReferences"] == [without_holding_up]
    assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (1, RESOURCES_OF_ONE)
    assert [cluster.group_of(f"web-{i}") for i in range(3)] == [WEB] * 3


def test_min_member_is_inherited_from_the_owner_and_the_queue_is_not() -> None:
    annotations = {MIN_MEMBER: "2", QUEUE_NAME: "q1", "keep": "me"}
    cluster = controlled()
    cluster.create(
        owner(REPLICA_SET, "web", 3, annotations),
        pod("web-0", of(), annotations={"volcano.sh/preemptable": "true"}),
    )

    group = cluster.groups()[WEB]
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    assert group["spec"] == {"minMember": 2, "minResources": RESOURCES_OF_TWO, "queue": "default"}


@pytest.mark.parametrize("kind", [REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB], ids=lambda kind: kind.name)
def test_annotations_of_volcano_are_inherited_and_those_of_the_pod_come_before_them(kind: Kind) -> None:
    inherited = {
        MIN_MEMBER: "2",
        "volcano.sh/card.request": '{"NVIDIA-H200":2}',
        "volcano.sh/preemptable": "false",
        "volcano.sh/revocable-zone": "rz1",
    }
    own = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "600s",
        "volcano.sh/jdb-min-available": "1",
        "volcano.sh/card.name": "NVIDIA-H200",
    }
    labels = {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5s", "app": "web"}
    cluster = controlled()
    cluster.create(owner(kind, "web", annotations=inherited), pod("web-0", of(kind), annotations=own, labels=labels))

    group = cluster.groups()[WEB]
    assert group["metadata"]["annotations"] == {
        "volcano.sh/card.request": '{"NVIDIA-H200":2}',
        "volcano.sh/preemptable": "true",
        "volcano.sh/revocable-zone": "rz1",
        "volcano.sh/cooldown-time": "600s",
        "volcano.sh/jdb-min-available": "1",
    }
    assert group["metadata"]["labels"] == {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5s"}
    assert group["spec"]["minMember"] == 2


def test_an_owner_of_another_group_with_the_same_kind_is_not_taken_for_a_batch_job() -> None:
    cluster = controlled()
    cluster.create(owner(BATCH_JOB, "web", annotations={MIN_MEMBER: "2"}), pod("web-0", of(VCJOB)))
    assert cluster.groups()[WEB]["spec"]["minMember"] == 1


@pytest.mark.parametrize("text", ["two", "-1", "1.5", "", " 2", "2_0", "٢", "2147483648", "9" * 5000])
def test_a_malformed_min_member_counts_as_one_and_the_owner_gets_a_warning(text: str) -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 3, {MIN_MEMBER: text}), pod("web-0", of()))

    assert cluster.groups()[WEB]["spec"]["minMember"] == 1
    assert cluster.events() == [
        (
            "ReplicaSet",
            "web",
            "Warning",
            "Malformed",
            f"metadata.annotations[{MIN_MEMBER}]: {text[:64]!r} is not a whole number from 0 to 2147483647 "
            "(1 is used); ignored",
        )
    ]


def test_min_member_zero_asks_for_nothing() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 3, {MIN_MEMBER: "0"}), pod("web-0", of()))
    spec = cluster.groups()[WEB]["spec"]
    assert spec == {"minResources": {}, "queue": "default"}


# --- network topology ---
@pytest.mark.parametrize(
    ("annotations", "topology"),
    [
        ({"volcano.sh/network-topology-mode": "Soft"}, {"mode": "soft"}),
        ({"volcano.sh/network-topology-highest-tier": "2"}, {"mode": "hard", "highestTierAllowed": 2}),
        (
            {"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "3"},
            {"mode": "soft", "highestTierAllowed": 3},
        ),
    ],
)
def test_network_topology_comes_from_the_pod_and_is_hard_unless_said_otherwise(
    annotations: dict[str, str], topology: dict[str, Any]
) -> None:
    cluster = controlled()
    cluster.create(pod("plain", annotations=annotations))
    assert cluster.groups()["podgroup-uid-plain"]["spec"]["networkTopology"] == topology


def test_a_malformed_network_topology_is_ignored_and_the_pod_gets_a_warning() -> None:
    cluster = controlled()
    annotations = {"volcano.sh/network-topology-mode": "firm", "volcano.sh/network-topology-highest-tier": "top"}
    cluster.create(pod("plain", annotations=annotations))

    assert cluster.groups()["podgroup-uid-plain"]["spec"]["networkTopology"] == {"mode": "hard"}
    assert [message for *_, message in cluster.events()] == [
        "metadata.annotations[volcano.sh/network-topology-mode]: 'firm' is not one of hard, soft (hard is used); "
        "ignored",
        "metadata.annotations[volcano.sh/network-topology-highest-tier]: 'top' is not a whole number from 0 to "
        "2147483647; ignored",
    ]


# --- owners that are not there, that shrink and grow ---
def test_no_pod_group_is_made_before_the_owner_is_known() -> None:
    cluster = controlled()
    cluster.create(pod("web-0", of()))
    assert cluster.groups() == {}

    cluster.create(owner(REPLICA_SET, "web", 1, {MIN_MEMBER: "2"}))
    assert cluster.groups()[WEB]["spec"]["minMember"] == 2
    assert cluster.group_of("web-0") == WEB


def test_a_namesake_of_the_owner_is_not_the_owner() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"])
    namesake = owner(REPLICA_SET, "web", 1)
    namesake["metadata"]["uid"] = "uid-other"
    cluster = controlled()
    cluster.create(namesake, pod("web-0", of()))
    assert cluster.groups() == {}
    for kind, name in ((REPLICA_SET, "web"), (POD, "web-0")):
        obj = cluster.cluster.server.decoded(kind, "default", name)
        assert obj is not None
        store.upsert(kind, obj)
        keys = controller.observe(kind, None, obj, 0.0)
    assert keys == [("default", WEB)]
    assert controller.plan(keys[0], 0.0).problem == (
        "ReplicaSet web (uid-web) is not there, so what its PodGroup should be is not known"
    )


@pytest.mark.parametrize("kind", [REPLICA_SET, STATEFUL_SET], ids=lambda kind: kind.name)
def test_the_pod_group_goes_when_the_owner_is_scaled_to_zero_and_comes_again(kind: Kind) -> None:
    cluster = controlled()
    cluster.create(owner(kind, "web", 1), pod("web-0", of(kind)))
    cluster.delete(POD, "web-0")
    assert list(cluster.groups()) == [WEB]

    cluster.patch(kind, "web", {"spec": {"replicas": 0}})
    assert cluster.groups() == {}

    cluster.patch(kind, "web", {"spec": {"replicas": 2}})
    cluster.create(pod("web-0", of(kind)), pod("web-1", of(kind)))
    assert list(cluster.groups()) == [WEB]
    assert [cluster.group_of("web-0"), cluster.group_of("web-1")] == [WEB, WEB]


def test_the_pod_group_outlives_the_last_pods_of_an_owner_scaled_to_zero() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 1), pod("web-0", of()))
    cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 0}})
    assert list(cluster.groups()) == [WEB]

    cluster.delete(POD, "web-0")
    cluster.wait(2)
    assert cluster.groups() == {}


def test_pods_that_come_before_the_news_that_their_owner_has_grown_get_their_pod_group() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 0), pod("web-0", of()))
    assert cluster.group_of("web-0") == WEB

    cluster.wait(2)
    cluster.patch(REPLICA_SET, "web", {"spec": {"replicas": 1}})
    assert list(cluster.groups()) == [WEB]


def test_a_pod_group_deleted_under_its_pods_is_made_again() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 1), pod("web-0", of()), pod("plain"))
    cluster.delete(POD_GROUP, WEB)
    cluster.delete(POD_GROUP, "podgroup-uid-plain")
    assert sorted(cluster.groups()) == ["podgroup-uid-plain", WEB]


def test_a_pod_group_that_goes_with_its_owner_is_not_made_again() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 1), pod("web-0", of()))
    cluster.delete(REPLICA_SET, "web")
    assert cluster.groups() == {}


# --- changes ---
def test_a_new_template_of_a_stateful_set_changes_the_pod_group() -> None:
    cluster = controlled()
    cluster.create(owner(STATEFUL_SET, "web", 2), pod("web-0", of(STATEFUL_SET)))
    cluster.wait(1)
    cluster.create(
        pod(
            "web-1",
            of(STATEFUL_SET),
            requests={"memory": "1Gi"},
            annotations={QUEUE_NAME: "q2", "volcano.sh/preemptable": "true"},
        )
    )

    group = cluster.groups()[WEB]
    assert group["spec"] == {
        "minMember": 1,
        "minResources": {"count/pods": "1", "pods": "1", "memory": "1Gi", "requests.memory": "1Gi"},
        "queue": "q2",
    }
    assert group["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        {"resources": {"requests": {"cpu": "3"}}},
    ],
)
def test_a_resized_pod_changes_the_min_resources_of_its_pod_group(spec: dict[str, Any]) -> None:
    cluster = controlled()
    cluster.create(pod("plain"))
    cluster.patch(POD, "plain", {"spec": spec})
    assert cluster.groups()["podgroup-uid-plain"]["spec"]["minResources"]["cpu"] == "3"


def test_other_changes_of_a_pod_do_not_reconcile_its_pod_group() -> None:
    controller = PodGroupController(Store(), ["volcano"])
    named = decoded("plain", **{GROUP_NAME: "podgroup-uid-plain"})
    again = decoded("plain", **{GROUP_NAME: "podgroup-uid-plain", "other": "thing"})
    assert controller.observe(POD, named, again, 1.0) == []


def test_a_new_min_member_of_the_owner_changes_the_pod_group() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 3), pod("web-0", of()))
    cluster.patch(REPLICA_SET, "web", {"metadata": {"annotations": {MIN_MEMBER: "2"}}})

    spec = cluster.groups()[WEB]["spec"]
    assert (spec["minMember"], spec["minResources"]) == (2, RESOURCES_OF_TWO)


def test_a_pod_that_comes_later_leaves_what_others_wrote_into_the_pod_group() -> None:
    cluster = controlled()
    cluster.create(owner(REPLICA_SET, "web", 2), pod("web-0", of()))
    body = {"spec": {"queue": "q7"}, "metadata": {"annotations": {"volcano.sh/job-allocated-hypernode": "s0"}}}
    cluster.patch(POD_GROUP, WEB, {**body, "status": {"phase": "Running", "running": 1}})
    cluster.create(pod("web-1", of()))

    group = cluster.groups()[WEB]
    assert group["spec"]["queue"] == "q7"
    assert group["metadata"]["annotations"] == {"volcano.sh/job-allocated-hypernode": "s0"}
    assert group["status"] == {"phase": "Running", "running": 1}


# --- plans ---
def decoded(name: str, **annotations: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(scheduler_name="volcano"), status=PodStatus(phase="Pending"))


def with_a_head_start() -> tuple[Store, PodGroupController, tuple[str, str]]:
    """A plain Pod that was seen at 10.0, half a second before its PodGroup is created; with the key of that."""
    store = Store()
    controller = PodGroupController(store, ["volcano"], head_start=0.5)
    store.upsert(POD, decoded("plain"))
    controller.observe(POD, None, decoded("plain"), 10.0)
    return store, controller, ("default", "podgroup-uid-plain")


def test_the_pod_group_is_made_while_its_pods_are_annotated() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"])
    store.upsert(POD, decoded("plain"))
    assert controller.observe(POD, None, decoded("plain"), 0.0) == [("default", "podgroup-uid-plain")]

    (stage,) = controller.plan(("default", "podgroup-uid-plain"), 0.0).stages
    made, named = stage
    assert isinstance(made, Create)
    annotations = {"annotations": {GROUP_NAME: "podgroup-uid-plain"}}
    assert named == Patch(POD, "default", "plain", {"metadata": annotations}, "uid-plain")


def test_the_scheduler_has_a_head_start_with_a_plain_pod_whose_pod_group_follows() -> None:
    _, controller, key = with_a_head_start()

    first = controller.plan(key, 10.0)
    assert (first.stages, first.after) == ([], 0.5)
    again = controller.plan(key, 10.25)
    assert (again.stages, again.after) == ([], 0.25)
    assert [type(effect) for stage in controller.plan(key, 10.5).stages for effect in stage] == [Create, Patch]


def test_a_pod_that_the_scheduler_binds_in_its_head_start_is_not_written_and_gets_its_pod_group() -> None:
    store, controller, key = with_a_head_start()
    controller.plan(key, 10.0)

    bound = decoded("plain", **{GROUP_NAME: key[1]})
    store.upsert(POD, bound)
    controller.observe(POD, decoded("plain"), bound, 10.1)
    assert [type(effect) for stage in controller.plan(key, 10.5).stages for effect in stage] == [Create]


def test_a_pod_that_names_a_pod_group_which_was_never_created_gets_it_when_the_controllers_start() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"], head_start=0.5)
    key = ("default", "podgroup-uid-plain")
    bound = decoded("plain", **{GROUP_NAME: key[1]})
    store.upsert(POD, bound)
    assert controller.observe(POD, None, bound, 10.0) == [key]
    assert [type(effect) for stage in controller.plan(key, 10.0).stages for effect in stage] == [Create]

    meta = ObjectMeta(name=key[1], namespace="default", uid="uid-group")
    store.upsert(POD_GROUP, PodGroup(metadata=meta, spec=PodGroupSpec(min_member=1)))
    assert controller.observe(POD, None, bound, 11.0) == []


@pytest.mark.parametrize("annotations", [{GROUP_NAME: "podgroup-of-its-user"}, {GROUP_NAME: "train"}])
def test_a_pod_that_names_another_pod_group_gets_none(annotations: dict[str, str]) -> None:
    controller = PodGroupController(Store(), ["volcano"], head_start=0.5)
    assert controller.observe(POD, None, decoded("plain", **annotations), 10.0) == []


def test_the_scheduler_has_a_head_start_with_a_plain_pod_whose_pod_group_exists() -> None:
    store, controller, key = with_a_head_start()
    controller.plan(key, 10.0)
    (create, _) = [e for stage in controller.plan(key, 10.5).stages for e in stage]
    assert isinstance(create, Create)
    store.upsert(POD_GROUP, msgspec.convert(create.manifest, PodGroup))

    first = controller.plan(key, 11.0)
    assert (first.stages, first.after) == ([], 0.5)
    assert [type(effect) for stage in controller.plan(key, 11.5).stages for effect in stage] == [Patch]


def test_a_pod_that_waits_for_its_pod_group_gets_it_at_once() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"], head_start=0.5)
    chooses = decoded("chooses", **{QUEUE_NAME: "q1"})
    store.upsert(POD, chooses)
    controller.observe(POD, None, chooses, 10.0)

    assert [
        type(effect) for stage in controller.plan(("default", "podgroup-uid-chooses"), 10.0).stages for effect in stage
    ] == [
        Create,
        Patch,
    ]


def test_an_existing_pod_group_is_changed_before_another_pod_names_it() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"])
    store.upsert(POD, decoded("plain"))
    controller.observe(POD, None, decoded("plain"), 0.0)
    meta = ObjectMeta(name="podgroup-uid-plain", namespace="default", uid="uid-group")
    store.upsert(POD_GROUP, PodGroup(metadata=meta, spec=PodGroupSpec(min_member=0)))

    first, second = controller.plan(("default", "podgroup-uid-plain"), 0.0).stages
    assert [effect.kind for effect in first if isinstance(effect, Patch)] == [POD_GROUP]
    assert [effect.kind for effect in second if isinstance(effect, Patch)] == [POD]


def test_a_pod_group_that_could_not_be_made_is_made_for_the_pods_that_name_it_already() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"])
    store.upsert(POD, decoded("plain", **{GROUP_NAME: "podgroup-uid-plain"}))

    ((made,),) = controller.plan(("default", "podgroup-uid-plain"), 0.0).stages
    assert isinstance(made, Create)


def test_other_changes_of_a_pod_that_waits_already_do_not_reconcile_it() -> None:
    controller = PodGroupController(Store(), ["volcano"])
    before, after = decoded("plain"), decoded("plain", other="thing")
    controller.observe(POD, None, before, 0.0)
    assert controller.observe(POD, before, after, 1.0) == []


def test_a_namesake_of_a_pod_that_waited_is_reconciled() -> None:
    controller = PodGroupController(Store(), ["volcano"])
    before, after = decoded("plain"), decoded("plain")
    after.metadata.uid = "uid-new"
    controller.observe(POD, None, before, 0.0)
    assert controller.observe(POD, before, after, 1.0) == [("default", "podgroup-uid-new")]


def test_once_all_pods_are_in_it_there_is_nothing_left_to_do() -> None:
    store = Store()
    controller = PodGroupController(store, ["volcano"])
    store.upsert(POD, decoded("plain"))
    controller.observe(POD, None, decoded("plain"), 0.0)
    named = decoded("plain", **{GROUP_NAME: "podgroup-uid-plain"})
    store.upsert(POD, named)
    assert controller.observe(POD, decoded("plain"), named, 1.0) == []
    assert controller.observe(POD, named, None, 2.0) == []
