"""The plugin in complete sessions: admission, placement and messages."""

import pytest

from scheduler.api.kinds import NODE
from scheduler.api.names import CARD_NAME
from scheduler.api.task import TaskStatus
from scheduler.plugins.capacity_card.plugin import CapacityCard
from tests.builders import Raw, World, configuration, feed, group, node, pod
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    D4090,
    D4090D,
    GPU,
    H200,
    H800,
    PLUGINS,
    SEED_QUOTA,
    UNLIMITED,
    card_group,
    card_pod,
    gang,
    gpu_node,
    insufficient,
    labels,
    quota_queue,
)

QUEUE = quota_queue("cr-queue1", SEED_QUOTA, "4c+4Gi", guarantee="2c+2Gi")
BOTH = f"{D4090}|{D4090D}"
SMALL = f"100m+100Mi+{GPU}=1".replace("100m", "0.1c")


def refused(world: World) -> list[str]:
    """The Warnings on PodGroups in the last session."""
    return [e.message for e in world.decisions.events if e.about.kind == "PodGroup" and e.type == "Warning"]


def pod_events(world: World, name: str) -> list[str]:
    events = (event for update in world.decisions.pods for event in update.events())
    return [event.message for event in events if event.about.name == name]


def with_init_containers(raw: Raw, *asked: tuple[int, bool]) -> Raw:
    """The Pod with init containers that request these numbers of cards; True: a sidecar."""
    raw["spec"]["initContainers"] = [
        {"name": f"i{i}", "resources": {"requests": {GPU: str(number)}, "limits": {GPU: str(number)}}}
        | ({"restartPolicy": "Always"} if sidecar else {})
        for i, (number, sidecar) in enumerate(asked)
    ]
    return raw


# --- what the design says ---
def test_a_job_over_the_quota_is_not_admitted_and_its_pod_group_has_the_reason() -> None:
    job = card_group("job", "cr-queue1", 1, {H200: 5}, asks="1c+1Gi")
    world = World(gpu_node("n"), QUEUE, job).run(CONFIGURATION)
    assert world.phase("job") == "Pending"
    assert refused(world) == [insufficient("cr-queue1", H200, 5000, 5000, 3000)]


def test_a_pod_over_the_quota_is_not_bound_and_has_the_reason() -> None:
    job = gang("job", "cr-queue1", 1, asks=f"1c+1Gi+{GPU}=5")
    world = World(gpu_node("n"), QUEUE, job).run(CONFIGURATION)
    assert world.bound == {}
    assert world.message_of("job-0") == insufficient("cr-queue1", H200, 5000, 5000, 3000)
    assert pod_events(world, "job-0") == [insufficient("cr-queue1", H200, 5000, 5000, 3000)]


@pytest.mark.parametrize(
    ("own", "init", "most"),
    [
        (0, [(4, False)], 4),
        (0, [(4, True)], 4),
        (1, [(2, False), (2, True), (3, False)], 5),
        (2, [(2, True), (1, False)], 4),
        (2, [(1, False), (2, False)], 2),
    ],
)
def test_cards_of_init_containers_count_with_the_most_at_once(
    own: int, init: list[tuple[int, bool]], most: int
) -> None:
    def bound(quota: int) -> dict[str, str]:
        pod = with_init_containers(card_pod("job-0", "job", asks=f"1c+1Gi+{GPU}={own}"), *init)
        job = [card_group("job", "q", 1, phase="Inqueue"), pod]
        return World(gpu_node("n"), quota_queue("q", {H200: quota}), job).run(CONFIGURATION).bound

    assert (bound(most), bound(most - 1)) == ({"job-0": "n"}, {})


def test_the_design_job_gets_its_cards() -> None:
    job = [card_group("cr-job", "cr-queue1", 2, {H200: 2}, asks=f"2c+2Gi+{GPU}=2")]
    pods = [card_pod(f"cr-job-{i}", "cr-job") for i in range(2)]
    world = World(gpu_node("n"), QUEUE, job, pods).run(CONFIGURATION)
    assert world.bound == {"cr-job-0": "n", "cr-job-1": "n"}


@pytest.mark.parametrize(
    ("resource", "card", "most"),
    [
        (f"{GPU}.shared", "NVIDIA-H800/mps-80g*1/2", 2),
        ("nvidia.com/mig-1g.18gb", "NVIDIA-H200/mig-1g.18gb-mixed", 3),
        ("nvidia.com/mig-3g.71gb", "NVIDIA-H200/mig-3g.71gb-mixed", 1),
    ],
)
def test_shared_cards_have_separate_quotas(resource: str, card: str, most: int) -> None:
    offers = f"{resource}=8"
    shared = labels("NVIDIA-H800", memory=81559) | {f"{GPU}.replicas": "2"}
    nodes = [gpu_node("h200", H200, 7, offers), node("h800", f"64c+256Gi+{GPU}=4+{offers}", shared)]
    pods = [card_pod(f"p-{i}", "job", card, f"0.1c+1Mi+{resource}=1") for i in range(5)]
    world = World(nodes, QUEUE, card_group("job", "cr-queue1", phase="Inqueue"), pods).run(CONFIGURATION)
    assert set(world.bound.values()) == {"h800" if "H800" in card else "h200"}
    assert len(world.bound) == most
    assert world.message_of("p-4") == insufficient("cr-queue1", card, 1000, (most + 1) * 1000, most * 1000)


def test_a_card_without_quota_cannot_be_used() -> None:
    world = World(gpu_node("n", "NVIDIA-A100"), QUEUE, gang("job", "cr-queue1", 1, "NVIDIA-A100")).run(CONFIGURATION)
    assert world.message_of("job-0") == insufficient("cr-queue1", "NVIDIA-A100", 1000, 1000, 0)


def test_the_capability_limits_cpu_and_memory() -> None:
    world = World(gpu_node("n"), QUEUE, gang("job", "cr-queue1", 1, asks=f"5c+5Gi+{GPU}=1")).run(CONFIGURATION)
    gib = 2**30
    cpu, memory = (
        insufficient("cr-queue1", "cpu", 5000, 5000, 4000),
        insufficient("cr-queue1", "memory", 5 * gib, 5 * gib, 4 * gib),
    )
    assert world.message_of("job-0") == f"{cpu}; {memory}"


def test_with_the_argument_cpu_and_memory_of_pods_with_cards_are_unlimited() -> None:
    job = gang("job", "cr-queue1", 1, asks=f"5c+5Gi+{GPU}=1")
    plain = gang("plain", "cr-queue1", 1, None, "5c+1Gi")
    world = World(gpu_node("n"), QUEUE, job, plain).run(UNLIMITED)
    assert world.bound == {"job-0": "n"}
    assert world.message_of("plain-0") == insufficient("cr-queue1", "cpu", 5000, 5000, 4000)


def test_with_the_argument_jobs_with_cards_are_admitted_by_their_cards_only() -> None:
    job = card_group("job", "cr-queue1", 1, {H200: 2}, asks="50c+50Gi")
    assert World(gpu_node("n"), QUEUE, job).run(UNLIMITED).phase("job") == "Inqueue"
    assert World(gpu_node("n"), QUEUE, job).run(CONFIGURATION).phase("job") == "Pending"


# --- admission ---
def test_jobs_are_admitted_until_the_quota_is_reserved() -> None:
    jobs = [card_group(f"job-{i}", "cr-queue1", 1, {H200: 2}, asks="1c+1Gi") for i in range(2)]
    world = World(gpu_node("n"), QUEUE, jobs).run(CONFIGURATION)
    assert (world.phase("job-0"), world.phase("job-1")) == ("Inqueue", "Pending")
    assert refused(world) == [insufficient("cr-queue1", H200, 2000, 4000, 3000)]


def test_a_job_with_cards_and_without_min_resources_needs_quota_to_be_admitted() -> None:
    world = World(gpu_node("n"), QUEUE, card_group("job", "cr-queue1", 1, {H200: 5})).run(CONFIGURATION)
    assert world.phase("job") == "Pending"
    assert refused(world) == [insufficient("cr-queue1", H200, 5000, 5000, 3000)]


def test_elastic_amounts_of_a_job_do_not_prevent_admission_of_others() -> None:
    running = [card_pod(f"p-{i}", "big", asks=SMALL, on="n") for i in range(3)]
    held = [card_group("big", "cr-queue1", 1, asks="0.1c+100Mi", phase="Running"), *running]
    job = card_group("job", "cr-queue1", 1, {H200: 2}, asks="1c+1Gi")
    assert World(gpu_node("n"), QUEUE, held, job).run(CONFIGURATION).phase("job") == "Inqueue"
    more = card_group("job", "cr-queue1", 1, {H200: 3}, asks="1c+1Gi")
    world = World(gpu_node("n"), QUEUE, held, more).run(CONFIGURATION)
    assert refused(world) == [insufficient("cr-queue1", H200, 3000, 4000, 3000)]


def test_pods_that_exist_count_instead_of_the_annotation() -> None:
    job = card_group("job", "cr-queue1", 1, {H200: 5}, asks="1c+1Gi")
    assert World(gpu_node("n"), QUEUE, job, card_pod("p", "job")).run(CONFIGURATION).bound == {"p": "n"}


def test_a_job_with_alternative_cards_is_admitted_if_their_sum_suffices() -> None:
    queue = quota_queue("q", {D4090: 2, D4090D: 1})
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D)]
    fits = card_group("fits", "q", 1, {BOTH: 3}, asks="1c")
    over = card_group("over", "q", 1, {BOTH: 1}, asks="1c")
    world = World(nodes, queue, fits, over).run(CONFIGURATION)
    assert (world.phase("fits"), world.phase("over")) == ("Inqueue", "Pending")
    assert refused(world) == [insufficient("q", BOTH, 1000, 4000, 3000)]


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_only_an_open_queue_takes_jobs(state: str) -> None:
    queue = quota_queue("q", {H200: 3}, state=state)
    pods = gang("job", "q", 1)
    world = World(gpu_node("n"), queue, pods, card_group("new", "q", asks="1c")).run(CONFIGURATION)
    assert world.bound == {}
    assert world.phase("new") == "Pending"
    assert world.message_of("job-0") == f"queue q is {state}: only an Open queue takes jobs"
    assert f"queue q is {state}: only an Open queue takes jobs" in refused(world)


# --- several cards ---
def test_the_card_named_first_is_preferred() -> None:
    queue = quota_queue("q", {D4090: 8, D4090D: 8})
    nodes = [gpu_node("a", D4090D), gpu_node("b", D4090)]
    assert World(nodes, queue, gang("job", "q", 1, BOTH)).run(CONFIGURATION).bound == {"job-0": "b"}
    turned = f"{D4090D}|{D4090}"
    assert World(nodes, queue, gang("job", "q", 1, turned)).run(CONFIGURATION).bound == {"job-0": "a"}


def test_when_a_quota_is_exhausted_the_next_alternative_card_is_used() -> None:
    queue = quota_queue("q", {D4090: 2, D4090D: 1})
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D)]
    pods = [card_group("job", "q", phase="Inqueue"), *(card_pod(f"p-{i}", "job", BOTH) for i in range(4))]
    world = World(nodes, queue, pods).run(CONFIGURATION)
    assert world.bound == {"p-0": "a", "p-1": "a", "p-2": "b"}
    assert world.message_of("p-3") == "; ".join(
        [insufficient("q", D4090, 1000, 3000, 2000), insufficient("q", D4090D, 1000, 2000, 1000)]
    )


def test_the_fit_error_has_numbers_if_the_quota_leaves_only_full_nodes() -> None:
    queue = quota_queue("q", {D4090: 1, D4090D: 4})
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D, 1)]
    pods = [card_group("job", "q", phase="Inqueue"), *(card_pod(f"p-{i}", "job", BOTH) for i in range(3))]
    world = World(nodes, queue, pods).run(CONFIGURATION)
    assert world.bound == {"p-0": "a", "p-1": "b"}
    used_up = f"1 node(s) had card {D4090}, quota of which is used up in queue q (asked 1, used 1, quota 1)"
    assert used_up in world.message_of("p-2")
    assert f"1 Insufficient {GPU}" in world.message_of("p-2")


def test_of_alternative_cards_only_those_with_quota_are_used() -> None:
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D, 1)]
    world = World(nodes, quota_queue("q", {D4090D: 8}), gang("job", "q", 2, BOTH)).run(CONFIGURATION)
    assert world.bound == {}
    assert f"1 node(s) had card {D4090}, of which queue q has no quota" in world.message_of("job-1")
    assert World(nodes, quota_queue("q", {D4090D: 8}), gang("job", "q", 1, BOTH)).run(CONFIGURATION).bound == {
        "job-0": "b"
    }


def test_two_queues_with_equal_pods_have_separate_quotas() -> None:
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D)]
    queues = [quota_queue("q", {D4090: 1, D4090D: 1}), quota_queue("r", {D4090D: 2})]
    world = World(nodes, queues, gang("one", "q", 2, BOTH), gang("two", "r", 2, BOTH)).run(CONFIGURATION)
    assert world.bound == {"one-0": "a", "one-1": "b", "two-0": "b", "two-1": "b"}


@pytest.mark.parametrize(
    ("names", "conflict"),
    [
        (f"{D4090}|NVIDIA-H20/mig-1g.24gb-mixed", f"<{D4090}> is nvidia.com/gpu"),
        ("NVIDIA-H20/mig-1g.24gb-mixed|NVIDIA-H20/mig-1g.37gb-mixed", "is nvidia.com/mig-1g.37gb"),
        (f"{H200}|Ascend-910B", "<Ascend-910B> is huawei.com/Ascend910"),
    ],
)
def test_cards_of_different_resources_cannot_be_alternatives(names: str, conflict: str) -> None:
    ascend = {"huawei.com/npu.product": "Ascend-910B", "huawei.com/npu.memory": "65536"}
    nodes = [gpu_node("a", D4090), gpu_node("b"), node("c", "8c+8Gi+huawei.com/Ascend910=8", ascend)]
    queue = quota_queue("q", dict.fromkeys(names.split("|"), 8))
    world = World(nodes, queue, gang("job", "q", 1, names), card_group("new", "q", 1, {names: 1}, asks="1c"))
    world.run(CONFIGURATION)
    assert world.bound == {}
    assert world.phase("new") == "Pending"
    assert len([text for text in refused(world) if conflict in text]) >= 2
    assert conflict in world.message_of("job-0")


def test_a_discarded_gang_leaves_the_books_as_they_were() -> None:
    queue = quota_queue("q", {D4090: 2, D4090D: 1}, "64c+64Gi")
    nodes = [gpu_node("a", D4090), gpu_node("b", D4090D)]
    session = World(nodes, queue, gang("job", "q", 3, BOTH)).session(CONFIGURATION)
    books = next(p for p in session.plugins if isinstance(p, CapacityCard))._books["q"]
    before = dict(books.allocated)
    job = session.jobs["default/job"]
    tasks = list(job.of(TaskStatus.PENDING).values())
    statement = session.statement()
    statement.allocate(job, tasks[:2], [1, 0])
    statement.pipeline(job, tasks[2], 0)
    assert (books.allocated[D4090], books.allocated[D4090D]) == (2000.0, 1000.0)
    statement.evict(job, tasks[0], "test")
    assert books.allocated[D4090D] == 0.0
    statement.discard()
    assert {name: amount for name, amount in books.allocated.items() if amount} == {
        k: v for k, v in before.items() if v
    }


# --- nodes ---
def test_a_pod_is_bound_only_to_nodes_with_a_card_it_names() -> None:
    nodes = [gpu_node("a", H800), node("b", f"64c+64Gi+{GPU}=8"), gpu_node("c", H200, 1)]
    world = World(nodes, QUEUE, gang("job", "cr-queue1", 2)).run(CONFIGURATION)
    assert world.bound == {}
    message = world.message_of("job-1")
    assert f"1 node(s) had no card {H200}" in message
    assert f"1 node(s) had no valid label {GPU}.product, which names the card of {GPU}" in message


def test_a_pod_that_names_no_card_is_charged_for_the_card_of_its_node() -> None:
    nodes = [gpu_node("a", "NVIDIA-A100"), gpu_node("b", H800, 1), gpu_node("c", H200)]
    pods = [card_pod(f"p-{i}", "job", None, SMALL) for i in range(6)]
    world = World(nodes, QUEUE, card_group("job", "cr-queue1", phase="Inqueue"), pods).run(CONFIGURATION)
    assert sorted(world.bound.values()) == ["b", "c", "c", "c"], "never A100, of which the queue has no quota"


def test_a_pod_that_names_no_card_gets_none_if_the_queue_has_no_quota() -> None:
    world = World(gpu_node("n"), quota_queue("q", None), gang("job", "q", 1, None)).run(CONFIGURATION)
    assert world.message_of("job-0") == insufficient("q", GPU, 1000, 1000, 0)


def test_a_pod_is_charged_for_its_actual_card_whatever_it_names() -> None:
    mig = "nvidia.com/mig-1g.18gb"
    job = gang("job", "q", 1, H200, f"1c+1Gi+{mig}=1")
    world = World(gpu_node("n", offers=f"{mig}=4"), quota_queue("q", {H200: 8}), job).run(CONFIGURATION)
    assert world.message_of("job-0") == insufficient("q", mig, 1000, 1000, 0)


def test_a_resource_that_neither_its_name_nor_a_label_calls_a_card_is_not_limited() -> None:
    job = gang("job", "q", 1, None, "1c+1Gi+rdma/hca=1")
    world = World(node("n", "8c+8Gi+rdma/hca=8"), quota_queue("q", None), job).run(CONFIGURATION)
    assert world.bound == {"job-0": "n"}


def test_messages_use_the_card_name_of_the_pod() -> None:
    shared = labels("NIVIDIA-H20", memory=97871) | {f"{GPU}.replicas": "2"}
    card = "NIVIDIA-H20/mps-90g*1/2"
    job = gang("job", "q", 2, card, f"1c+1Gi+{GPU}.shared=1")
    world = World(node("n", f"8c+8Gi+{GPU}.shared=8", shared), quota_queue("q", {card: 1}), job).run(CONFIGURATION)
    assert world.message_of("job-1") == insufficient("q", card, 1000, 2000, 1000)


# --- what goes wrong ---
def test_a_queue_with_an_unreadable_quota_has_none_and_the_refusal_says_so() -> None:
    world = World(gpu_node("n"), quota_queue("q", "{broken"), gang("job", "q", 1), gang("plain", "q", 1, None, "1c"))
    world.run(CONFIGURATION)
    assert world.bound == {"plain-0": "n"}
    start = insufficient("q", H200, 1000, 1000, 0)
    assert world.message_of("job-0") == f"{start}; the queue's annotation volcano.sh/card.quota cannot be read"
    assert any("volcano.sh/card.quota" in text for text in world.events("Malformed"))


def test_problems_of_annotations_and_labels_are_reported_and_the_session_continues() -> None:
    objects = [
        gpu_node("n"),
        node("bad", "8c+8Gi", {f"{GPU}.product": H200, f"{GPU}.count": "many"}),
        quota_queue("q", {H200: 3, H800: -1}),
        card_group("job", "q", 1, "[]", phase="Inqueue"),
        card_pod("p", "job", f"{H200}||"),
    ]
    world = World(*objects).run(CONFIGURATION)
    assert world.bound == {"p": "n"}
    assert world.outcome is not None
    kinds = sorted(problem.kind for problem in world.outcome.malformed)
    assert kinds == ["Node", "Pod", "PodGroup", "Queue"]


def test_two_names_of_one_card_in_a_quota_are_not_added_up() -> None:
    shared = labels(H800, memory=81559) | {f"{GPU}.replicas": "2"}
    queue = quota_queue("q", {f"{H800}/mps-80g*1/2": 1, f"{H800}/mps-79g*1/2": 5})
    world = World(node("n", f"8c+8Gi+{GPU}.shared=8", shared), queue).run(CONFIGURATION)
    assert world.outcome is not None
    assert ["another name" in problem.problem for problem in world.outcome.malformed] == [True]


def test_running_pods_stay_charged_when_cards_disappear() -> None:
    running = [card_pod(f"p-{i}", "job", on="n") for i in range(2)]
    job = card_group("job", "cr-queue1", 1, phase="Running")
    world = World(gpu_node("n"), node("cpu", "8c+8Gi"), QUEUE, job, running).run(CONFIGURATION)
    world.cluster.cache.delete(NODE, "", "n")
    feed(world.cluster.cache, *gang("big", "cr-queue1", 1, asks=f"1c+1Gi+{GPU}=2"), *gang("small", "cr-queue1", 1))
    world.run(CONFIGURATION)
    assert world.bound == {}
    assert world.message_of("big-0") == insufficient("cr-queue1", H200, 2000, 4000, 3000), "two are still held"
    assert (
        world.message_of("small-0")
        == f"0/1 nodes are unavailable: 1 Insufficient {GPU}. ({GPU}: asked 1, most free on one node 0)"
    )


def test_a_pod_waits_for_cards_that_a_node_no_longer_has() -> None:
    world = World(gpu_node("n", cards=0), QUEUE, gang("job", "cr-queue1", 1)).run(CONFIGURATION)
    assert world.bound == {}
    assert f"Insufficient {GPU}" in world.message_of("job-0")


def test_quotas_may_add_up_to_more_than_the_cluster_has() -> None:
    queues = [quota_queue("q", {H200: 10}), quota_queue("r", {H200: 10})]
    world = World(gpu_node("n", cards=3), queues, gang("one", "q", 2), gang("two", "r", 2)).run(CONFIGURATION)
    assert world.bound == {"one-0": "n", "one-1": "n"}
    assert f"Insufficient {GPU}" in world.message_of("two-1")


def test_a_quota_below_the_held_amount_only_prevents_new_pods() -> None:
    running = [card_group("old", "q", 1, phase="Running"), *(card_pod(f"p-{i}", "old", on="n") for i in range(4))]
    world = World(gpu_node("n"), quota_queue("q", {H200: 2}), running, gang("job", "q", 1)).run(CONFIGURATION)
    assert (world.bound, world.evicted) == ({}, set())
    assert world.message_of("job-0") == insufficient("q", H200, 1000, 5000, 2000)


def test_a_job_of_a_missing_queue_does_not_affect_other_jobs() -> None:
    world = World(gpu_node("n"), QUEUE, gang("lost", "nowhere", 1), gang("job", "cr-queue1", 1)).run(CONFIGURATION)
    assert world.bound == {"job-0": "n"}


# --- queues in order ---
def test_the_queue_with_the_smaller_share_is_served_first() -> None:
    queues = [quota_queue("a", {H200: 2}), quota_queue("b", {H200: 8})]
    running = [
        card_group("x", "a", 1, phase="Running"), card_pod("x-0", "x", on="n"),
        card_group("y", "b", 1, phase="Running"), card_pod("y-0", "y", on="n"),
    ]  # fmt: skip
    world = World(gpu_node("n", cards=3), queues, running, gang("one", "a", 1), gang("two", "b", 1)).run(CONFIGURATION)
    assert world.bound == {"two-0": "n"}


def test_a_queue_of_higher_priority_is_served_first() -> None:
    queues = [quota_queue("a", {H200: 8}), quota_queue("b", {H200: 8}, priority=5)]
    world = World(gpu_node("n", cards=1), queues, gang("one", "a", 1), gang("two", "b", 1)).run(CONFIGURATION)
    assert world.bound == {"two-0": "n"}


def test_a_wrong_argument_is_reported_and_the_default_holds() -> None:
    wrong = configuration(*PLUGINS, arguments={"capacity-card": {"cardUnlimitedCpuMemory": "perhaps"}})
    session = World(gpu_node("n")).session(wrong)
    assert any("cardUnlimitedCpuMemory" in problem for problem in session.problems)


def test_pods_that_name_a_card_without_requesting_one_use_no_quota() -> None:
    named = pod("p", "1c", "job", annotations={CARD_NAME: H200})
    queue = quota_queue("q", {H200: 0})
    world = World(node("a", "8c+8Gi"), gpu_node("n"), queue, group("job", "q", phase="Inqueue"), named)
    assert world.run(CONFIGURATION).bound == {"p": "n"}
