"""The scheduler chooses one of the alternatives of a vcjob by quota and nodes, for the whole gang."""

import json
from typing import Any

import pytest

from scheduler.actions.alternatives import PATIENCE, AlternativeChooser, Answer, Fit, best, report
from scheduler.api.card_alternatives import GangAlternative
from scheduler.api.job import Job
from scheduler.api.kinds import POD, VCJOB
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_ALTERNATIVES,
    CARD_GANGS,
    CARD_NAME,
    CARD_REQUEST,
    PREPARED_ALTERNATIVE,
    QUEUE_NAME_ANNOTATION,
)
from scheduler.framework.configuration import Configuration
from tests.builders import NAME, Raw, World, group, hyper_node, pod
from tests.unit.actions.alternative_jobs import (
    CAPACITY,
    CARDS,
    H200,
    PPU,
    PROPORTION,
    TOPOLOGY,
    Cluster,
    alternative,
    card_job,
    card_node,
    card_queue,
    holder,
)

NODES = [card_node("gpus", H200, 8), card_node("ppus", PPU, 8)]


# --- the decision -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fits", "chosen"),
    [
        ([Fit.NOW, Fit.NOW], "0"),
        ([Fit.WAITS, Fit.NOW], "1"),
        ([Fit.LATER, Fit.NOW], "1"),
        ([Fit.WAITS, Fit.LATER], "1"),
        ([Fit.WAITS, Fit.WAITS], "0"),
        ([Fit.REFUSED, Fit.WAITS], "1"),
        ([Fit.REFUSED, Fit.REFUSED], "0"),
    ],
)
def test_the_alternative_that_fits_best_is_chosen_and_of_equals_the_preferred_one(fits: list[Fit], chosen: str) -> None:
    assert best([Answer(str(i), fit) for i, fit in enumerate(fits)]).name == chosen


def test_the_report_has_a_line_for_each_alternative() -> None:
    answers = [Answer("a", Fit.REFUSED, "no quota"), Answer("b", Fit.WAITS, "no node"), Answer("c", Fit.NOW)]
    assert report(answers, "c") == "a: no quota\nb: no node\nc: chosen"
    assert report(answers, "b") == "a: no quota\nb: chosen; no node\nc: "


# --- the choice -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "configuration", [CARDS, CAPACITY, PROPORTION], ids=["capacity-card", "capacity", "proportion"]
)
def test_the_preferred_alternative_is_used_while_it_fits_then_the_next(configuration: Configuration) -> None:
    jobs = [card_job(f"j{i}") for i in range(3)]
    cluster = Cluster(*NODES, card_queue(), *jobs, configuration=configuration).run()
    assert (cluster.cards("j0"), cluster.nodes("j0")) == ({H200}, {"gpus"})
    assert (cluster.cards("j1"), cluster.nodes("j1")) == ({PPU}, {"ppus"})
    assert cluster.pods("j2") == []
    assert cluster.phase("j2") == "Pending"


def test_a_full_quota_of_the_preferred_card_leads_to_the_next_and_a_freed_one_back() -> None:
    queue = card_queue(quota={H200: 8, PPU: 8})
    cluster = Cluster(card_node("gpus", H200, 16), NODES[1], queue, card_job("a")).run()
    cluster.apply(card_job("b")).run()
    assert cluster.cards("b") == {PPU}
    insufficient = f"Queue <team> has insufficient <{H200}> quota: requested <8000>, total would be <16000>"
    assert cluster.lines("b")[H200].startswith(insufficient)
    assert cluster.lines("b")[PPU] == "chosen"
    cluster.delete(VCJOB, "a")
    cluster.apply(card_job("c")).run()
    assert cluster.cards("c") == {H200}


def test_a_queue_without_quota_of_any_card_gets_no_pods_and_a_reason_for_each() -> None:
    cluster = Cluster(*NODES, card_queue(quota={H200: 4, PPU: 4}), card_job("a")).run()
    assert cluster.pods("a") == []
    condition = cluster.condition("a")
    assert (condition["status"], condition["reason"]) == ("False", "NoneAdmitted")
    for card in (H200, PPU):
        assert f"insufficient <{card}> quota: requested <8000>" in cluster.lines("a")[card]
    unschedulable = next(c for c in cluster.group("a")["status"]["conditions"] if c["type"] == "Unschedulable")
    assert f"alternative {H200}: Queue <team> has insufficient" in unschedulable["message"]
    assert f"alternative {PPU}: Queue <team> has insufficient" in unschedulable["message"]


def test_the_gang_uses_one_alternative_although_both_together_would_do() -> None:
    cluster = Cluster(card_node("gpus", H200, 4), card_node("ppus", PPU, 4), card_queue(), card_job("a")).run()
    assert len(cluster.cards("a")) == 1
    assert cluster.nodes("a") == {""}


def test_quota_is_charged_for_the_chosen_card_only() -> None:
    cluster = Cluster(card_node("ppus", PPU, 8), card_queue(), card_job("a")).run()
    status = cluster.simulation.cluster.get("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
    assert status is not None
    cards = status["status"]["cards"]
    assert (cards[PPU]["used"], cards.get(H200, {}).get("used", "0")) == ("8", "0")
    annotations = cluster.group("a")["metadata"]["annotations"]
    assert json.loads(annotations[CARD_REQUEST]) == {PPU: 8}
    assert annotations[PREPARED_ALTERNATIVE] == PPU
    assert cluster.group("a")["spec"]["minResources"]["example.com/ppu"] == "8"


def test_a_resource_that_no_node_has_is_a_reason() -> None:
    cluster = Cluster(NODES[0], card_queue(), card_job("a"), holder("h", "gpus", H200, 8)).run(1)
    assert cluster.lines("a")[PPU] == "no node has example.com/ppu"
    cluster = Cluster(NODES[1], card_queue(), card_job("a")).run()
    assert "0 of 2 Pods find a node" in cluster.lines("a")[H200]
    assert (cluster.lines("a")[PPU], cluster.nodes("a")) == ("chosen", {"ppus"})


@pytest.mark.parametrize(
    ("template", "fields"),
    [
        ({"nodeSelector": {"pool": "a"}}, {}),
        ({}, {"nodeSelector": {"pool": "a"}}),
    ],
)
def test_nodes_are_tried_with_the_constraints_of_the_pods(template: Raw, fields: Raw) -> None:
    nodes = [card_node("gpus", H200, 8), card_node("ppus", PPU, 8, pool="a")]
    job = card_job("a", alternative(H200, **fields), alternative(PPU, **fields), template=template)
    cluster = Cluster(*nodes, card_queue(), job).run()
    assert cluster.nodes("a") == {"ppus"}
    assert "0 of 2 Pods find a node" in cluster.lines("a")[H200]
    assert "didn't match Pod's node affinity/selector" in cluster.lines("a")[H200]


def test_the_whole_gang_must_fit() -> None:
    job = card_job("a", replicas=3)
    queue = card_queue(quota={H200: 12, PPU: 12})
    cluster = Cluster(NODES[0], card_node("ppus", PPU, 16), queue, job).run()
    assert cluster.nodes("a") == {"ppus"}
    assert "2 of 3 Pods find a node" in cluster.lines("a")[H200]


def test_count_and_replicas_may_differ_between_alternatives() -> None:
    job = card_job("a", alternative(H200, 8), alternative(PPU, 2, replicas=4), replicas=2)
    cluster = Cluster(*NODES, card_queue(quota={H200: 16, PPU: 8}), job).run()
    assert cluster.cards("a") == {PPU}
    assert len(cluster.pods("a")) == 4
    assert cluster.group("a")["spec"]["minMember"] == 4


SMALL = (f"{H200}/mig-1g.18gb-mixed", "nvidia.com/mig-1g.18gb")
LARGE = (f"{H200}/mig-3g.71gb-mixed", "nvidia.com/mig-3g.71gb")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((PPU, "example.com/ppu"), SMALL),
        (LARGE, SMALL),
    ],
    ids=["whole card or slice", "slices of different sizes"],
)
def test_slices_of_cards_are_alternatives(first: tuple[str, str], second: tuple[str, str]) -> None:
    node = card_node("gpus", H200, 6)
    node["status"]["allocatable"]["nvidia.com/mig-1g.18gb"] = "3"
    quota = {first[0]: 4, second[0]: 4}
    listed = [{"card": card, "resource": resource} for card, resource in (first, second)]
    cluster = Cluster(node, card_queue(quota=quota), card_job("a", *listed)).run()
    assert (cluster.cards("a"), cluster.nodes("a")) == ({second[0]}, {"gpus"})
    limits = cluster.pods("a")[0]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/mig-1g.18gb": "1"}


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_cards_joined_across_resources_are_refused_with_the_way_to_list_them(kind: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1", "example.com/ppu": "1"}}}
    metadata = {"labels": {"app": "a"}, "annotations": {CARD_NAME: f"{H200}|{PPU}", QUEUE_NAME_ANNOTATION: "team"}}
    spec = {"schedulerName": NAME, "containers": [container]}
    head = {"name": "a", "namespace": "default"}
    objects: dict[str, Raw] = {
        "Pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {**head, **metadata}, "spec": spec},
        "Deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": head,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": metadata, "spec": spec},
            },
        },
    }
    cluster = Cluster(*NODES, card_queue(), objects[kind]).run()
    (made,) = cluster.all(POD)
    assert "nodeName" not in made["spec"]
    events = [each["message"] for each in cluster.simulation.cluster.objects() if each["kind"] == "Event"]
    refusals = [text for text in events if "cannot stand for each other" in text]
    assert refusals
    for refusal in refusals:
        assert f"<{H200}> is nvidia.com/gpu, <{PPU}> is example.com/ppu" in refusal
        assert f"a vcjob can list them in the annotation {CARD_ALTERNATIVES} of its Pod template" in refusal


def test_jobs_that_arrive_together_do_not_choose_the_same_nodes() -> None:
    queue = card_queue(quota={H200: 99, PPU: 99})
    cluster = Cluster(*NODES, queue, card_job("a"), card_job("b")).run()
    assert (cluster.cards("a"), cluster.cards("b")) == ({H200}, {PPU})


def test_pods_that_terminate_are_awaited_unless_another_alternative_fits() -> None:
    terminating = holder("old", "gpus", H200, 8)
    terminating["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    only_gpus = Cluster(NODES[0], card_queue(), card_job("a"), terminating)
    only_gpus.run(1)
    assert only_gpus.chosen("a") == H200
    assert "chosen; its Pods get nodes when Pods that terminate are gone" in only_gpus.lines("a")[H200]
    both = Cluster(*NODES, card_queue(), card_job("a"), terminating)
    both.run(1)
    assert both.chosen("a") == PPU


def test_without_a_fitting_node_the_first_alternative_with_quota_gets_pods_so_that_evictions_can_help() -> None:
    full = [holder("h", "gpus", H200, 8), holder("p", "ppus", PPU, 8)]
    cluster = Cluster(*NODES, card_queue(quota={PPU: 8}), card_job("a"), *full).run()
    assert (cluster.cards("a"), cluster.nodes("a")) == ({PPU}, {""})


# --- another choice ---------------------------------------------------------------------------------------------------
def test_pods_that_wait_are_replaced_when_another_alternative_fits_for_a_while() -> None:
    full = [holder("h", "gpus", H200, 8), holder("p", "ppus", PPU, 8)]
    cluster = Cluster(*NODES, card_queue(), card_job("a"), *full).run(4)
    assert (cluster.cards("a"), cluster.phase("a")) == ({H200}, "Inqueue")
    cluster.delete(POD, "p")
    seen: list[set[str]] = []
    for _ in range(int(PATIENCE) + 8):
        cluster.run(1)
        seen.append(cluster.cards("a"))
    assert all(len(cards) < 2 for cards in seen)
    assert cluster.nodes("a") == {"ppus"}
    assert cluster.cards("a") == {PPU}
    assert "0 of 2 Pods find a node" in cluster.lines("a")[H200]


def test_a_share_of_the_cluster_counts_as_with_the_pods_of_the_alternative() -> None:
    """With proportion, a queue deserves at most what its Pods request, and these do not exist yet."""
    gpus = [card_node(f"gpus-{i}", H200, 4) for i in range(2)]
    full = [holder("h", "gpus-0", H200, 2), holder("p", "ppus", PPU, 8)]
    cluster = Cluster(*gpus, NODES[1], card_queue(), card_job("a"), *full, configuration=PROPORTION).run(4)
    assert cluster.cards("a") != {PPU}
    cluster.delete(POD, "p")
    cluster.run(int(PATIENCE) + 8)
    assert cluster.nodes("a") == {"ppus"}


def test_pods_that_wait_are_kept_while_no_other_alternative_fits() -> None:
    full = [holder("h", "gpus", H200, 8), holder("p", "ppus", PPU, 8)]
    cluster = Cluster(*NODES, card_queue(), card_job("a"), *full).run(2)
    uids = {pod["metadata"]["uid"] for pod in cluster.pods("a")}
    cluster.run(int(PATIENCE) + 5)
    assert {pod["metadata"]["uid"] for pod in cluster.pods("a")} == uids
    cluster.delete(POD, "h")
    cluster.run()
    assert {pod["metadata"]["uid"] for pod in cluster.pods("a")} == uids
    assert cluster.nodes("a") == {"gpus"}


def test_a_job_with_a_running_pod_keeps_its_alternative() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    cluster = Cluster(*NODES, card_queue(), card_job("a", policies=policies)).run()
    cluster.delete(POD, "a-w-0")
    cluster.apply(holder("h", "gpus", H200, 4))
    cluster.run(int(PATIENCE) + 5)
    assert cluster.cards("a") == {H200}
    assert "gpus" in cluster.nodes("a")


def test_a_gang_that_lost_its_nodes_chooses_again() -> None:
    cluster = Cluster(*NODES, card_queue(), card_job("a")).run()
    assert cluster.nodes("a") == {"gpus"}
    for each in cluster.pods("a"):
        cluster.delete(POD, each["metadata"]["name"])
    cluster.apply(holder("h", "gpus", H200, 8))
    cluster.run(12)
    assert cluster.nodes("a") == {"ppus"}


def test_a_restarted_job_chooses_again() -> None:
    policies: list[dict[str, Any]] = [{"event": "PodEvicted", "action": "RestartJob"}]
    cluster = Cluster(*NODES, card_queue(), card_job("a", policies=policies)).run()
    cluster.delete(POD, "a-w-0")
    cluster.apply(holder("h", "gpus", H200, 8))
    cluster.run(12)
    assert cluster.nodes("a") == {"ppus"}


# --- network topology, other jobs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("partitions", [False, True], ids=["job", "partitions"])
def test_an_alternative_fits_only_if_the_gang_finds_a_hyper_node(partitions: bool) -> None:
    nodes = [card_node(f"gpus-{i}", H200, 4) for i in range(2)] + [card_node(f"ppus-{i}", PPU, 4) for i in range(2)]
    racks = [
        *(hyper_node(f"rack-{i}", 1, f"gpus-{i}") for i in range(2)),
        hyper_node("rack-2", 1, "ppus-0", "ppus-1"),
        hyper_node("spine", 2, ">rack-0", ">rack-1", ">rack-2"),
    ]
    topology = {"mode": "hard", "highestTierAllowed": 1}
    job = card_job("a")
    if not partitions:
        job["spec"]["networkTopology"] = topology
    else:
        policy = {"totalPartitions": 1, "partitionSize": 2, "minPartitions": 1, "networkTopology": topology}
        job["spec"]["tasks"][0]["partitionPolicy"] = policy
    cluster = Cluster(*nodes, *racks, card_queue(), job, configuration=TOPOLOGY).run()
    assert cluster.nodes("a") == {"ppus-0", "ppus-1"}
    assert "no HyperNode up to tier 1 has room" in cluster.lines("a")[H200]


def test_a_job_whose_tasks_start_one_after_another_is_tried_with_all_of_them() -> None:
    job = card_job("a")
    second = {**job["spec"]["tasks"][0], "name": "x", "dependsOn": {"name": ["w"]}}
    job["spec"]["tasks"].append(second)
    job["spec"]["minAvailable"] = 4
    quota = {H200: 16, PPU: 16}
    cluster = Cluster(NODES[0], card_node("ppus", PPU, 16), card_queue(quota=quota), job).run()
    assert cluster.nodes("a") == {"ppus"}
    assert "2 of 4 Pods find a node" in cluster.lines("a")[H200]


def test_a_job_of_a_template_chooses_too() -> None:
    spec = card_job("a")["spec"]
    head = {"apiVersion": "flow.volcano.sh/v1alpha1", "metadata": {"name": "train", "namespace": "default"}}
    template = {**head, "kind": "JobTemplate", "spec": spec}
    flow = {**head, "kind": "JobFlow", "spec": {"flows": [{"name": "train"}]}}
    cluster = Cluster(*NODES, card_queue(quota={PPU: 8}), template, flow).run()
    assert cluster.nodes("train-train") == {"ppus"}


def test_a_job_is_not_admitted_while_pods_of_another_alternative_are_seen() -> None:
    """The watch of Pods may be behind that of PodGroups."""
    prepared = Cluster(*NODES, card_queue(quota={PPU: 8}), card_job("a")).run(1)
    prepared.simulation.run_controllers()
    annotations = prepared.group("a")["metadata"]["annotations"]
    assert annotations[PREPARED_ALTERNATIVE] == PPU
    made = group("g", "team", 1, asks="1c")
    made["metadata"]["annotations"] = annotations
    stale = pod("old", "1c", "g", annotations={CARD_ALTERNATIVE: H200})
    world = World(*NODES, card_queue(quota={PPU: 8}), made, stale)
    assert world.run(CARDS).bound == {}
    assert world.phase("g") == "Pending"
    world.cluster.server.delete(POD, "default", "old", force=True)
    world.run(CARDS)
    assert world.phase("g") == "Inqueue"


GANG: Raw = {"name": H200, "spec": {"minMember": 1}, "roles": [{"name": "w", "pods": 1}]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[{", "not JSON"),
        (json.dumps([{**GANG, "roles": [{"pods": -1}]}]), "[0].roles[0].pods"),
        (json.dumps([{**GANG, "spec": {"minMember": -1}}]), "minMember -1 is below 0"),
        (json.dumps([{**GANG, "spec": {"minResources": {"cpu": "many"}}}]), "cpu: not a quantity: 'many'"),
        (
            json.dumps([{**GANG, "roles": [{"spec": {"overhead": {"memory": "-1"}}}]}]),
            "memory: negative amount -1",
        ),
    ],
)
def test_a_list_of_gangs_that_a_user_has_changed_is_set_aside_with_a_warning(text: str, problem: str) -> None:
    annotations = {CARD_GANGS: text, PREPARED_ALTERNATIVE: H200}
    made = group("g", "team", asks="1c")
    made["metadata"]["annotations"] = annotations
    world = World(*NODES, card_queue(), made)
    world.run(CARDS)
    assert world.phase("g") == "Inqueue"
    (found,) = [each for each in world.malformed if CARD_GANGS in each]
    assert problem in found


def test_a_session_tries_a_limited_number_of_pods_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.actions.alternatives.TRIAL_PODS", 3)
    jobs = [card_job("a", template={"nodeSelector": {"pool": "a"}}), card_job("b")]
    cluster = Cluster(*NODES, card_queue(quota={H200: 99}), *jobs).run(1)
    assert "nodes were not tried: a session tries at most 3 Pods of namespace default" in cluster.lines("b")[H200]


def test_equal_jobs_that_fit_nowhere_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    try_nodes = AlternativeChooser._try_nodes

    def counted(chooser: AlternativeChooser, asked: Job, gang: GangAlternative) -> Answer:
        tried.append(gang.name)
        return try_nodes(chooser, asked, gang)

    monkeypatch.setattr(AlternativeChooser, "_try_nodes", counted)
    full = [holder("h", "gpus", H200, 8), holder("p", "ppus", PPU, 8)]
    quota = {H200: 99, PPU: 99}
    cluster = Cluster(*NODES, card_queue(quota=quota), *(card_job(f"j{i}") for i in range(5)), *full).run(1)
    assert tried == [H200, PPU]
    assert all("0 of 2 Pods find a node" in cluster.lines(f"j{i}")[PPU] for i in range(5))


def test_jobs_without_alternatives_are_admitted_as_before() -> None:
    job = card_job("a")
    template = job["spec"]["tasks"][0]["template"]
    template["metadata"] = {"annotations": {"volcano.sh/card.name": H200}}
    template["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "nvidia.com/gpu": "4"}}
    cluster = Cluster(*NODES, card_queue(), job).run()
    assert cluster.nodes("a") == {"gpus"}
    assert cluster.condition("a") == {}
