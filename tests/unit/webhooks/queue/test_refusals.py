"""Refusals of the creation, update and deletion of queues, in Volcano's wording."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import QUEUE
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT, CARD_QUOTA, HIERARCHY, HIERARCHY_WEIGHTS
from scheduler.webhooks.contract import AdmissionRequest, Operation
from scheduler.webhooks.queue import validate
from tests.unit.webhooks.clusters import VOLCANO, Cluster, changed, created, deleted, queue

BODY = "requestBody.spec"
NOT_FOUND = 'queue.scheduling.volcano.sh "{}" not found'
P1 = queue("p1", capability={"cpu": "8"}, deserved={"cpu": "4"})
C1 = queue("c1", capability={"cpu": "4"}, deserved={"cpu": "2"}, parent="p1")
TREE = Cluster(queue("default"), queue("root"), P1, C1, queue("free"))


# --- amounts of one queue ---
@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({"capability": {"cpu": "8"}, "deserved": {"cpu": "8000m"}}, ""),
        ({"capability": {"cpu": 4, "memory": "4Gi"}, "guarantee": {"resource": {"cpu": 2, "memory": "2Gi"}}}, ""),
        (
            {"capability": {"cpu": "8"}, "deserved": {"cpu": "9"}},
            f'{BODY}.deserved.cpu: Invalid value: "9": deserved[cpu]=9 must be <= capability[cpu]=8',
        ),
        (
            {"deserved": {"memory": "1Gi"}, "guarantee": {"resource": {"memory": "3072Mi"}}},
            f'{BODY}.deserved.memory: Invalid value: "1Gi": deserved[memory]=1Gi must be >= guarantee[memory]=3Gi',
        ),
        (
            {"guarantee": {"resource": {"cpu": "1"}}, "deserved": {"memory": "1Gi"}},
            f'{BODY}.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=1',
        ),
        (
            {"capability": {"cpu": "1", "memory": "4Gi"}, "guarantee": {"resource": {"cpu": "2", "memory": "3Gi"}}},
            f'{BODY}.capability.cpu: Invalid value: "1": capability[cpu]=1 must be >= guarantee[cpu]=2',
        ),
        (
            {"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "2"}}},
            f'[{BODY}.capability.cpu: Invalid value: "1": capability[cpu]=1 must be >= guarantee[cpu]=2, '
            f'{BODY}.deserved.cpu: Invalid value: "2": deserved[cpu]=2 must be <= capability[cpu]=1]',
        ),
        (
            {"capability": {"cpu": "-1"}},
            f'{BODY}.capability.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"capability": {"nvidia.com/gpu": "1500m"}},
            f'{BODY}.capability.nvidia.com/gpu: Invalid value: "1500m": must be an integer',
        ),
        ({"capability": {"requests.nvidia.com/gpu": "1500m"}}, ""),
        (
            {"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "3"}}},
            f'[{BODY}.deserved.cpu: Invalid value: "2": deserved[cpu]=2 must be >= guarantee[cpu]=3, '
            f'{BODY}.deserved.cpu: Invalid value: "2": deserved[cpu]=2 must be <= capability[cpu]=1]',
        ),
    ],
)
def test_guarantee_may_not_exceed_deserved_nor_deserved_capability(spec: dict[str, Any], refusal: str) -> None:
    assert created(QUEUE, queue("q", **spec)).refusal == refusal


def test_a_malformed_quantity_is_refused_with_its_field() -> None:
    refusal = created(QUEUE, queue("q", capability={"cpu": "many"})).refusal
    assert refusal.startswith(f'{BODY}.capability.cpu: Invalid value: "many": quantities must match')


# --- the hierarchy in annotations ---
@pytest.mark.parametrize(
    ("path", "weights", "refusal"),
    [
        ("root/a", "1/2", ""),
        ("root/a/b", "1/10", f'"root/a/b": {HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}'),
        ("root/a/b", "1/-1/4", '"1/-1/4": -1 in the 1/-1/4 must be larger than 0'),
        (
            "root/a/b",
            "1/a/3",
            '"1/a/3": a in the 1/a/3 is invalid number: strconv.ParseFloat: parsing "a": invalid syntax',
        ),
        ("root/a", "1/٣", '"1/٣": ٣ in the 1/٣ is invalid number: strconv.ParseFloat: parsing "٣": invalid syntax'),
        ("root/sci", "1/2", '"root/sci": root/sci is not allowed to be in the sub path of root/sci/dev of queue other'),
        ("root/sc", "1/2", ""),
    ],
)
def test_a_hierarchy_has_a_positive_weight_per_level_and_is_no_prefix_of_another(
    path: str, weights: str, refusal: str
) -> None:
    other = queue("other", {HIERARCHY: "root/sci/dev", HIERARCHY_WEIGHTS: "1/2/3"})
    found = created(QUEUE, queue("q", {HIERARCHY: path, HIERARCHY_WEIGHTS: weights}), Cluster(other)).refusal
    assert found == (refusal and f"requestBody.metadata.annotations: Invalid value: {refusal}")


# --- parent and related queues ---
def chain(*names: str) -> list[dict[str, Any]]:
    """Queues of which each is the parent of the next queue."""
    return [queue(name, parent=parent) for parent, name in zip(("root", *names), names, strict=False)]


def test_a_parent_must_exist_and_be_another_queue() -> None:
    assert created(QUEUE, queue("q", parent="q")).refusal == "queue q cannot use itself as parent"
    refusal = f"failed to get parent queue nowhere of queue q: {NOT_FOUND.format('nowhere')}"
    assert created(QUEUE, queue("q", parent="nowhere")).refusal == refusal


def test_a_queue_may_be_five_levels_below_the_root_and_not_six() -> None:
    cluster = Cluster(*chain("a", "b", "c", "d", "e"))
    assert created(QUEUE, queue("q", parent="d"), cluster).refusal == ""
    assert created(QUEUE, queue("q", parent="e"), cluster).refusal == "queue q exceeds the maximum allowed depth of 5"
    deeper = replace(VOLCANO, max_queue_depth=6)
    assert created(QUEUE, queue("q", parent="e"), cluster, deeper).refusal == ""


def test_a_queue_cannot_have_its_own_descendant_as_parent() -> None:
    a, b, c = chain("a", "b", "c")
    refusal = changed(QUEUE, a, queue("a", parent="c"), Cluster(a, b, c))
    assert refusal == "queue a cannot have its own descendant c as parent"


def test_a_leaf_with_pods_cannot_become_a_parent() -> None:
    refusal = "queue p cannot be the parent queue of queue q because it has allocated Pods: 3"
    assert created(QUEUE, queue("q", parent="p"), Cluster(queue("p"), pods={"p": 3})).refusal == refusal
    parent = Cluster(queue("p"), queue("c", parent="p"), pods={"p": 3})
    assert created(QUEUE, queue("q", parent="p"), parent).refusal == ""


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({"capability": {"cpu": "9"}}, "queue q capability[cpu]=9 exceeds its ancestor's capability=8"),
        (
            {"deserved": {"cpu": "3"}},
            "parent queue p1 validation failed: sum of children's deserved (cpu 5000.00, memory 0.00) exceeds parent's "
            "deserved limit (cpu 4000.00, memory 0.00)",
        ),
        (
            {"deserved": {"nvidia.com/gpu": "1"}},
            "parent queue p1 validation failed: sum of children's deserved (cpu 2000.00, memory 0.00, nvidia.com/gpu "
            "1000.00) exceeds parent's deserved limit (cpu 4000.00, memory 0.00)",
        ),
        ({"deserved": {"cpu": "2"}}, ""),
    ],
)
def test_the_amounts_of_a_child_may_not_exceed_those_of_its_parent(spec: dict[str, Any], refusal: str) -> None:
    assert created(QUEUE, queue("q", parent="p1", **spec), TREE).refusal == refusal


def test_the_nearest_ancestor_with_a_capability_is_the_limit() -> None:
    cluster = Cluster(queue("a", capability={"memory": "1Gi"}), queue("b", parent="a"))
    refusal = "queue q capability[memory]=2Gi exceeds its ancestor's capability=1Gi"
    assert created(QUEUE, queue("q", parent="b", capability={"memory": "2Gi"}), cluster).refusal == refusal


def test_a_parent_cannot_shrink_below_its_children() -> None:
    smaller = queue("p1", capability={"cpu": "3"}, deserved={"cpu": "3"})
    refusal = "queue p1 capability[cpu]=3 is smaller than its descendants' max capability=4"
    assert changed(QUEUE, P1, smaller, TREE) == refusal
    smaller = queue("p1", capability={"cpu": "8"}, deserved={"cpu": "1"})
    assert changed(QUEUE, P1, smaller, TREE) == (
        "queue p1 validation failed: sum of children's deserved (cpu 2000.00, memory 0.00) exceeds parent's deserved "
        "limit (cpu 1000.00, memory 0.00)"
    )


def test_stored_cycles_and_malformed_amounts_do_not_block_other_queues() -> None:
    cluster = Cluster(
        queue("a", parent="b", capability={"cpu": "x"}),
        queue("b", parent="a", deserved={"cpu": "-"}),
        queue("c", parent="c"),
    )
    assert changed(QUEUE, queue("a", parent="b"), queue("a", parent="b", capability={"cpu": "1"}), cluster) == ""
    assert changed(QUEUE, queue("c", parent="c"), queue("c", parent="c", capability={"cpu": "1"}), cluster) == ""


def test_an_update_of_other_fields_is_not_validated_against_the_hierarchy() -> None:
    above = queue("c1", capability={"cpu": "9"}, parent="p1")
    same = queue("c1", capability={"cpu": "9000m"}, parent="p1", weight=7)
    assert changed(QUEUE, above, same, TREE) == ""


# --- what is stored already ---
@pytest.mark.parametrize("state", ["", "Open", "Closing", "Closed", "Unknown"])
def test_a_queue_in_any_state_that_the_controllers_write_can_be_changed(state: str) -> None:
    old = queue("q", state=state, capability={"cpu": "4"})
    assert changed(QUEUE, old, queue("q", state=state, capability={"cpu": "8"})) == ""
    assert changed(QUEUE, old, {**old, "metadata": {"name": "q", "labels": {"team": "x"}}}) == ""
    assert created(QUEUE, old).refusal == ""


def test_a_state_that_no_queue_has_is_refused_and_a_stored_one_does_not_block_other_changes() -> None:
    refusal = 'requestBody.spec.state: Invalid value: "Shut": queue state must be in [Open Closed]'
    assert created(QUEUE, queue("q", state="Shut")).refusal == refusal
    assert changed(QUEUE, queue("q"), queue("q", state="Shut")) == refusal
    assert changed(QUEUE, queue("q", state="Shut"), queue("q", state="Shut", weight=7)) == ""


def test_what_is_invalid_in_a_stored_queue_does_not_block_other_changes() -> None:
    hierarchy = {HIERARCHY: "root/a", HIERARCHY_WEIGHTS: "1"}
    old = queue("q", hierarchy, capability={"cpu": "1"}, deserved={"cpu": "2", "memory": "x"})
    marked = queue("q", {**hierarchy, "volcano.sh/closed-by-parent": "true"}, "Closing", **old["spec"])
    assert changed(QUEUE, old, marked) == ""
    worse = queue("q", hierarchy, capability={"cpu": "1"}, deserved={"cpu": "3", "memory": "x"})
    assert changed(QUEUE, old, worse) == (
        f'{BODY}.deserved.cpu: Invalid value: "3": deserved[cpu]=3 must be <= capability[cpu]=1'
    )


def test_naming_the_root_as_the_parent_is_no_move() -> None:
    parent, child = queue("p", deserved={"cpu": "1"}), queue("c", parent="p", deserved={"cpu": "2"})
    named = queue("p", parent="root", deserved={"cpu": "1"})
    assert changed(QUEUE, parent, named, Cluster(queue("root"), parent, child)) == ""


# --- the root, and deletion ---
def test_the_amounts_of_the_root_change_only_without_root_protection() -> None:
    root, limited = queue("root", weight=1), queue("root", capability={"cpu": "4"})
    refusal = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    assert changed(QUEUE, root, limited, TREE) == refusal
    assert changed(QUEUE, root, queue("root", weight=3), TREE) == ""
    assert changed(QUEUE, root, limited, TREE, replace(VOLCANO, root_queue_protection=False)) == ""


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("default", "`default` queue can not be deleted"),
        ("root", "`root` queue can not be deleted"),
        ("p1", "queue p1 can not be deleted because it has 1 child queues: c1"),
        ("nowhere", NOT_FOUND.format("nowhere")),
        ("c1", ""),
        ("free", ""),
    ],
)
def test_default_root_and_parent_queues_cannot_be_deleted(name: str, refusal: str) -> None:
    assert deleted(name, TREE) == refusal


@pytest.mark.parametrize(("old", "refused"), [(P1, True), (queue("free"), False), ({}, True), ({"metadata": 7}, True)])
def test_deleting_a_collection_validates_the_stored_name_of_each_queue(old: Any, refused: bool) -> None:
    request = AdmissionRequest(Operation.DELETE, QUEUE, "", "", {}, old)
    assert bool(validate(request, TREE, VOLCANO)) is refused


def test_a_queue_with_pods_cannot_be_deleted_when_that_check_is_enabled() -> None:
    cluster = Cluster(queue("q"), pods={"q": 2})
    assert deleted("q", cluster) == ""
    refusal = "queue q cannot be deleted because it has allocated Pods: 2"
    assert deleted("q", cluster, replace(VOLCANO, queue_allocated_pods_check=True)) == refusal


def test_the_default_queue_may_get_a_capability_and_a_parent() -> None:
    limited = queue("default", capability={"cpu": "4"})
    assert changed(QUEUE, queue("default"), limited, TREE) == ""
    assert changed(QUEUE, limited, queue("default", capability={"cpu": "4"}, parent="p1"), TREE) == ""


# --- cards ---
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"NVIDIA-H200": 3, "NVIDIA-H800/mps-80g*1/2": 2, "NVIDIA-H200/mig-1g.18gb-mixed": 0}', ""),
        ("{}", ""),
        ("NVIDIA-H200: 3", "'NVIDIA-H200: 3' is not JSON: expecting value (line 1, column 1)"),
        ('{"NVIDIA-H200": -1}', "'NVIDIA-H200': -1 is not a number of cards from 0 to 1000000000"),
        ('{"cpu": 1}', "'cpu' is not the name of a card"),
        ('{"A|B": 1}', "'A|B' is not the name of a card"),
    ],
)
def test_a_malformed_quota_is_refused_with_field_and_remedy(text: str, problem: str) -> None:
    remedy = 'write a JSON object of cards and how many of each, such as {"NVIDIA-H200": 2}'
    refusal = f"metadata.annotations[{CARD_QUOTA}]: {problem}: {remedy}" if problem else ""
    assert created(QUEUE, queue("q", {CARD_QUOTA: text})).refusal == refusal


@pytest.mark.parametrize("key", [CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT])
def test_malformed_limits_of_borrowing_and_lending_are_refused_with_field_and_remedy(key: str) -> None:
    refusal = created(QUEUE, queue("q", {key: '{"NVIDIA-H200": -1}'})).refusal
    assert refusal.startswith(f"metadata.annotations[{key}]: 'NVIDIA-H200': ")
    old = queue("q", {key: "nonsense"})
    assert changed(QUEUE, old, queue("q", {key: "nonsense"}, parent="root")) == ""
    assert changed(QUEUE, old, queue("q", {key: "other nonsense"})) != ""


def test_a_malformed_stored_quota_does_not_block_other_updates() -> None:
    old = queue("q", {CARD_QUOTA: "nonsense"})
    assert changed(QUEUE, old, queue("q", {CARD_QUOTA: "nonsense"}, parent="root")) == ""
    assert changed(QUEUE, old, queue("q", {CARD_QUOTA: "other nonsense"})) != ""


def test_an_update_of_a_queue_that_could_not_be_decoded_is_validated_completely() -> None:
    old = {"metadata": {"name": "q"}, "spec": {"weight": "x"}}
    assert changed(QUEUE, old, queue("q", parent="nowhere")) != ""
    assert changed(QUEUE, old, queue("q")) == ""
