"""The plugin extender calls another program, as rarely as possible, and tolerates its failures."""

from typing import Any

import pytest

from scheduler.framework.cycle import open_plugins
from scheduler.framework.external_calls import ExternalReply
from scheduler.framework.session import Session
from tests.builders import World, amounts, group, node, pod, pods
from tests.unit.plugins.extender.extenders import URL, VERBS, FakeExtender, conf, schedule

SILENT = ExternalReply(problem="no answer within 1 s", silent=True)
REFUSED = ExternalReply(problem="status 500")


def two_nodes(*objects: Any) -> World:
    return World(node("n1"), node("n2"), *objects)


def gang(number: int = 3) -> list[Any]:
    return [group("g", minimum=number), *pods("g", number, "1c", "g")]


def message(world: World, name: str = "g-0") -> str:
    return str(world.get("Pod", name)["status"]["conditions"][0]["message"])


def problems(world: World) -> list[str]:
    assert world.outcome is not None
    return world.outcome.session.problems


# --- predicate ---
def test_a_rejected_node_is_not_used_and_the_extenders_message_is_the_reason() -> None:
    extender = FakeExtender(predicate=lambda q: {"status": "not here", "code": 2})
    world = schedule(two_nodes(gang(1)), conf("predicate"), extender)
    assert world.bound == {}
    assert "0/2 nodes are unavailable: 2 not here." in message(world)


def test_nodes_are_checked_in_order_of_score_until_one_passes() -> None:
    extender = FakeExtender(predicate=lambda q: {"status": "no"} if q["node"]["Name"] == "n5" else {})
    world = World([node(f"n{i}") for i in range(100)], gang(1))
    assert schedule(world, conf("predicate"), extender).bound == {"g-0": "n0"}
    assert len(extender.asked) == 4


def test_only_nodes_that_pass_all_other_filters_are_checked() -> None:
    extender = FakeExtender(predicate={"status": "no"})
    world = World(node("small", "500m"), node("closed", unschedulable=True), node("n1"), gang(1))
    schedule(world, conf("predicate"), extender)
    assert {q["node"]["Name"] for q in extender.questions("predicate")} == {"n1"}


def test_a_node_is_checked_once_for_equal_tasks_until_it_changes() -> None:
    extender = FakeExtender()
    world = schedule(World(node("n1", "8c+8Gi"), node("n2", "8c+8Gi"), gang(4)), conf("predicate"), extender)
    assert len(world.bound) == 4
    # Both nodes, then the node that was taken last before each of the three others.
    assert len(extender.asked) == 5


def test_an_answer_is_used_for_one_task() -> None:
    extender = FakeExtender(predicate=lambda q: {"status": "full"} if q["node"]["Tasks"] else {})
    assert schedule(two_nodes(gang(2)), conf("predicate"), extender).bound == {"g-0": "n1", "g-1": "n2"}


def test_equal_pods_of_different_roles_and_jobs_are_checked_separately() -> None:
    extender = FakeExtender(predicate=lambda q: {"status": "no"} if q["task"]["TaskRole"] == "b" else {})
    jobs = [group("g"), group("h"), pod("g-a-0", "1c", "g", role="a"), pod("g-b-0", "1c", "g", role="b")]
    world = schedule(two_nodes(jobs, pod("h-a-0", "1c", "h", role="a")), conf("predicate"), extender)
    assert set(world.bound) == {"g-a-0", "h-a-0"}
    assert {q["task"]["Job"] for q in extender.questions("predicate")} == {"default/g", "default/h"}


@pytest.mark.parametrize(("code", "evicted"), [(0, set()), (1, set()), (2, {"old"}), (3, set())])
def test_evictions_are_tried_if_the_code_says_that_they_can_resolve_the_rejection(code: int, evicted: set[str]) -> None:
    def answer(question: Any) -> Any:
        tasks = question["node"]["Tasks"].values()
        return {} if all(t["Status"] == 64 for t in tasks) else {"status": "taken", "code": code}

    objects = [group("low", minimum=0, phase="Running"), pod("old", "1c", "low", on="n1")]
    objects += [group("high", phase="Inqueue", priority_class="high"), pod("new", "1c", "high", priority=9)]
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    world = World(classes, node("n1", "1c+1Gi"), objects)
    schedule(world, conf("predicate", actions="preempt"), FakeExtender(predicate=answer))
    assert world.evicted == evicted


# --- prioritize ---
def test_the_extender_scores_all_candidates_and_the_best_node_is_used() -> None:
    extender = FakeExtender(prioritize=lambda q: {"nodeScore": {"n2": 50, "unknown": 1e9}})
    assert schedule(two_nodes(gang(1)), conf("prioritize"), extender).bound == {"g-0": "n2"}
    assert [n["Name"] for n in extender.questions("prioritize")[0]["nodes"]] == ["n1", "n2"]


def test_after_a_placement_only_the_changed_node_is_scored_again() -> None:
    extender = FakeExtender(
        prioritize=lambda q: {"nodeScore": {n["Name"]: -len(n["Tasks"]) for n in q["nodes"]}},
    )
    assert schedule(two_nodes(gang(3)), conf("prioritize"), extender).bound == {"g-0": "n1", "g-1": "n2", "g-2": "n1"}
    shown = [[n["Name"] for n in question["nodes"]] for question in extender.questions("prioritize")]
    assert shown == [["n1", "n2"], ["n1"], ["n2"]]


@pytest.mark.parametrize("answer", [{"errorMessage": "cannot", "nodeScore": {"n2": 1}}, {}, REFUSED])
def test_without_scores_no_task_is_placed_and_the_reason_is_given(answer: Any) -> None:
    world = schedule(two_nodes(gang(1)), conf("prioritize"), FakeExtender(prioritize=answer))
    assert world.bound == {}
    assert f"extender {URL}/prioritize: " in message(world)


def test_missing_scores_are_ignored_if_the_extender_is_ignorable() -> None:
    world = schedule(two_nodes(gang(1)), conf("prioritize", ignorable=True), FakeExtender(prioritize=REFUSED))
    assert world.bound == {"g-0": "n1"}


# --- victims ---
def preemption() -> World:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 9))
    ]
    low = [group("low", phase="Running", priority_class="low"), *(pod(f"low-{i}", "1c", "low", on="n1") for i in "012")]
    high = [group("high", phase="Inqueue", priority_class="high"), pod("high-0", "1c", "high")]
    return World(classes, node("n1", "3c+3Gi"), low, high)


def test_only_candidates_that_the_extender_names_are_evicted() -> None:
    def answer(question: Any) -> Any:
        named = [task for task in question["evictees"] if task["Name"] == "low-1"]
        return {"status": 1, "victims": [*named, {"UID": "made-up"}, {"uid": 7}]}

    extender = FakeExtender(preemptable=answer)
    assert schedule(preemption(), conf("preemptable", actions="preempt", first=True), extender).evicted == {"low-1"}
    assert extender.questions("preemptable")[0]["evictor"]["Name"] == "high-0"


def test_the_extender_can_abstain_on_victims_or_reject_all() -> None:
    settings = conf("preemptable", actions="preempt", first=True)
    assert len(schedule(preemption(), settings, FakeExtender(preemptable={"status": 0})).evicted) == 1
    spared = FakeExtender(preemptable={"status": 1, "victims": None})
    assert schedule(preemption(), settings, spared).evicted == set()


@pytest.mark.parametrize(("ignorable", "victims"), [(True, 1), (False, 0)])
def test_without_an_answer_no_task_is_evicted_unless_the_extender_is_ignorable(ignorable: bool, victims: int) -> None:
    settings = conf("preemptable", actions="preempt", first=True, ignorable=ignorable)
    assert len(schedule(preemption(), settings, FakeExtender(preemptable=REFUSED)).evicted) == victims


# --- jobs and queues ---
def test_a_job_is_enqueued_if_the_extender_agrees_and_it_is_notified() -> None:
    extender = FakeExtender(jobEnqueueable=lambda q: {"status": -1 if q["job"]["Name"] == "no" else 1})
    world = schedule(
        two_nodes(group("no", asks="1c"), group("yes", asks="1c")), conf("jobEnqueueable jobEnqueued"), extender
    )
    assert (world.phase("no"), world.phase("yes")) == ("Pending", "Inqueue")
    assert [q["job"]["Name"] for q in extender.questions("jobEnqueued")] == ["yes"]


def test_a_queue_that_the_extender_calls_overused_is_skipped_and_its_jobs_have_the_reason() -> None:
    extender = FakeExtender(queueOverused=lambda q: {"overused": q["queue"]["Name"] == "default"})
    world = schedule(two_nodes(gang(1)), conf("queueOverused"), extender)
    assert world.bound == {}
    assert "queue default is overused, says the extender" in str(world.get("PodGroup", "g")["status"]["conditions"])


def test_the_extender_is_asked_whether_a_job_is_ready_after_all_other_plugins_agree() -> None:
    extender = FakeExtender(jobReady=lambda q: {"status": len(q["job"]["TaskStatusIndex"].get("2", ())) == 3})
    world = two_nodes(group("g", minimum=2), pods("g", 3, "1c", "g"))
    assert len(schedule(world, conf("jobReady"), extender).bound) == 3
    assert [len(q["job"]["TaskStatusIndex"]["2"]) for q in extender.questions("jobReady")] == [2, 3]


@pytest.mark.parametrize(("ignorable", "bound"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("verb", ["predicate", "queueOverused", "jobEnqueueable", "jobReady", "allocateFunc"])
def test_without_an_answer_no_job_proceeds_unless_the_extender_is_ignorable(
    verb: str, ignorable: bool, bound: int
) -> None:
    world = two_nodes(group("g", asks="1c"), pods("g", 1, "1c", "g"))
    schedule(world, conf(verb, ignorable=ignorable), FakeExtender(**{verb: REFUSED}))
    assert len(world.bound) == bound
    assert f"plugin extender: extender {URL}/{verb}: status 500" in problems(world)


# --- placements ---
def test_the_extender_is_notified_of_each_placement_and_can_reject_it() -> None:
    extender = FakeExtender(
        allocateFunc=lambda q: {"errorMessage": "not you"} if q["task"]["Name"] == "g-1" else {},
    )
    world = schedule(two_nodes(gang(2)), conf("allocateFunc deallocateFunc"), extender)
    assert world.bound == {} and "not you" in message(world, "g-1")
    calls = [(verb, q["task"]["Name"], q["task"]["NodeName"], q["task"]["Status"]) for verb, q in extender.asked]
    assert calls == [
        ("allocateFunc", "g-0", "n1", 2),
        ("allocateFunc", "g-1", "n1", 2),
        ("deallocateFunc", "g-1", "n1", 1),
        ("deallocateFunc", "g-0", "n1", 1),
    ]


def test_the_extender_is_notified_of_evictions_and_cannot_reject_their_undoing() -> None:
    extender = FakeExtender(allocateFunc={"errorMessage": "no"})
    session = Session(
        preemption().cluster.cache.snapshot(0), conf("allocateFunc deallocateFunc"), external_calls=extender
    )
    open_plugins(session)
    job = session.jobs["default/low"]
    task = next(iter(job.tasks()))
    statement = session.statement()
    statement.evict(job, task, "test")
    statement.discard()
    assert [(verb, q["task"]["Status"]) for verb, q in extender.asked] == [("deallocateFunc", 64), ("allocateFunc", 32)]


# --- managed resources ---
def test_the_extender_is_not_called_for_tasks_without_its_managed_resources() -> None:
    card = {"resources": {"limits": amounts("1c+example.com/card=1")}}
    managed = pod("managed", "", "g", containers=[{"name": "c"}], initContainers=[{"name": "i", **card}])
    nodes = [node(name, "4c+8Gi+example.com/card=1") for name in ("n1", "n2")]
    verbs = "predicate prioritize allocateFunc deallocateFunc"
    extender = FakeExtender(predicate={"status": "no"})
    world = World(nodes, group("g"), managed, pod("other", "1c", "g"))
    schedule(world, conf(verbs, managedResources=["example.com/card"]), extender)
    assert world.bound == {"other": "n1"}
    assert {q["task"]["Name"] for _, q in extender.asked} == {"managed"}


# --- the session ---
def test_the_extender_is_notified_when_a_session_opens_and_closes() -> None:
    extender = FakeExtender()
    schedule(two_nodes(gang(1)), conf("onSessionOpen onSessionClose predicate"), extender)
    assert extender.verbs[0] == "onSessionOpen" and extender.verbs[-1] == "onSessionClose"
    assert extender.questions("onSessionClose") == [{}]


@pytest.mark.parametrize(("ignorable", "bound"), [(False, 1), (True, 0)])
def test_an_extender_that_does_not_answer_the_opening_is_not_called_in_the_session_unless_it_is_ignorable(
    ignorable: bool, bound: int
) -> None:
    extender = FakeExtender(onSessionOpen=REFUSED, predicate={"status": "no"})
    world = schedule(two_nodes(gang(1)), conf("onSessionOpen predicate", ignorable=ignorable), extender)
    assert len(world.bound) == bound


def test_verbs_that_are_not_configured_are_not_called() -> None:
    extender = FakeExtender()
    schedule(two_nodes(gang(1)), conf(""), extender)
    assert extender.asked == []


def test_every_verb_at_once() -> None:
    extender = FakeExtender(
        jobEnqueueable={"status": 1}, jobReady={"status": True}, prioritize=lambda q: {"nodeScore": {}}
    )
    world = two_nodes(group("g", asks="2c", minimum=2), pods("g", 2, "1c", "g"))
    assert len(schedule(world, conf(" ".join(VERBS)), extender).bound) == 2
    assert set(extender.verbs) == set(VERBS) - {"preemptable", "reclaimable", "deallocateFunc"}


# --- requests and answers ---
def test_requests_have_the_configured_url_and_timeout() -> None:
    extender = FakeExtender()
    schedule(two_nodes(gang(1)), conf("predicate", httpTimeout="250ms"), extender)
    assert {(r.url, r.timeout) for r in extender.requests} == {(f"{URL}/predicate", 0.25)}


def test_field_names_in_answers_are_case_insensitive() -> None:
    world = schedule(two_nodes(gang(1)), conf("predicate"), FakeExtender(predicate={"Status": "not here", "CODE": 2}))
    assert "2 not here" in message(world)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"status": 7}', b'{"code": "x"}', b"7", b"[" * 100_000, b'{"status": "\xff"}'],
)
def test_an_invalid_answer_is_ignored_and_reported(body: bytes) -> None:
    extender = FakeExtender(predicate=ExternalReply(body))
    world = schedule(two_nodes(gang(1)), conf("predicate"), extender)
    assert world.bound == {}
    assert problems(world)[0].startswith(
        f"plugin extender: extender {URL}/predicate: not the answer that was expected:"
    )


def test_null_is_an_empty_answer() -> None:
    world = schedule(two_nodes(gang(1)), conf("predicate"), FakeExtender(predicate=ExternalReply(b"null")))
    assert world.bound == {"g-0": "n1"}


def test_an_extender_that_does_not_answer_is_not_called_again_in_the_session() -> None:
    extender = FakeExtender(queueOverused=SILENT, jobReady=SILENT, jobEnqueueable=SILENT)
    jobs = [[group(f"g{i}", asks="1c"), pod(f"g{i}-0", "1c", f"g{i}")] for i in range(9)]
    world = schedule(two_nodes(*jobs), conf("queueOverused jobReady jobEnqueueable", ignorable=True), extender)
    assert len(extender.asked) == 3 and len(world.bound) == 8
    reported = [text for text in problems(world) if "it is not asked again in this session" in text]
    assert reported


def test_without_external_calls_the_extender_does_not_answer() -> None:
    world = two_nodes(gang(1)).run(conf("predicate"))
    assert world.bound == {}
    assert "other programs are not asked here" in message(world)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"httpTimeout": "soon"}, "argument extender.httpTimeout: 'soon' is not a duration; using '1s'"),
        ({"httpTimeout": "0s"}, "argument extender.httpTimeout: '0s' is not above 0; using 1"),
        (
            {"urlPrefix": "extender:80"},
            "argument extender.urlPrefix: 'extender:80' is not an http or https URL; using nothing",
        ),
        ({"predicateVerb": 7}, "argument extender.predicateVerb: 7 is not a string; using nothing"),
        (
            {"managedResources": "a, b"},
            "argument extender.managedResources: 'a, b' is not a list of names; using nothing",
        ),
    ],
)
def test_an_invalid_argument_is_reported(arguments: dict[str, Any], problem: str) -> None:
    assert two_nodes().session(conf("", **arguments)).problems == [f"plugin extender: {problem}"]
