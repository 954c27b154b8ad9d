"""A session with an extender, called over HTTP, is replayed with the recorded requests to the extender and its
answers."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.cluster.external_calls import HttpCalls
from scheduler.framework.external_calls import ExternalReply, ExternalRequest
from scheduler.record.cache import RecordedExternalCalls
from scheduler.record.frames import Answered, Original, read_frames
from scheduler.record.replay import ReplayedExternalCalls, replay
from tests.builders import Raw, configuration, group, manifests, node, pods, queue
from tests.unit.cluster.servers import serving_in_thread
from tests.unit.record.test_recording import Recorded, some_cluster

VERBS = ("onSessionOpen", "predicate", "prioritize", "jobEnqueueable", "allocateFunc")


async def extend(request: web.Request) -> web.StreamResponse:
    """Decides by fields that a scheduler does not read: a field of a Pod's volume, and the kernel version of a node."""
    question = json.loads(await request.read())
    verb = request.path.rpartition("/")[2]
    if verb == "predicate":
        wants = question["task"]["Pod"]["spec"]["volumes"][0]["hostPath"]["path"]
        has = question["node"]["Node"]["status"]["nodeInfo"]["kernelVersion"]
        return web.json_response({} if wants == has else {"status": f"{has} is not {wants}", "code": 2})
    if verb == "prioritize":
        return web.json_response({"nodeScore": {n["Name"]: n["Node"]["status"]["score"] for n in question["nodes"]}})
    if verb == "jobEnqueueable":
        return web.json_response({"status": 1})
    return web.json_response({})


def kernel(name: str, version: str, score: int) -> Raw:
    made: dict[str, Any] = node(name, "4c")
    made["status"] |= {"nodeInfo": {"kernelVersion": version}, "score": score}
    return made


def wanting(name: str, version: str) -> list[Raw]:
    made: list[dict[str, Any]] = pods(name, 3, "1c", name)
    for raw in made:
        raw["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": version}}]
    return [group(name, "q", 2), *made]


@contextmanager
def recorded(directory: Path) -> Iterator[Recorded]:
    nodes = [kernel("n1", "new", 1), kernel("n2", "old", 5), kernel("n3", "new", 9)]
    with serving_in_thread(extend) as address, closing(HttpCalls()) as external_calls:
        asked = {"extender.urlPrefix": address, **{f"extender.{verb}Verb": verb for verb in VERBS}}
        plan = configuration(["priority", "gang"], ["predicates", "extender"], arguments={"extender": asked})
        yield Recorded(
            directory,
            nodes,
            queue("q"),
            wanting("a", "new"),
            wanting("b", "old"),
            plan=plan,
            external_calls=external_calls,
        )


def test_its_answers_are_given_again_to_the_same_questions(tmp_path: Path) -> None:
    with recorded(tmp_path) as scheduler:
        scheduler.run(2)
        scheduler.cluster.load(manifests(wanting("c", "odd"), kernel("n4", "odd", 1)))
        scheduler.run(2)
    sessions = scheduler.replayed()
    assert [session.differences for session in sessions] == [[]] * 4
    kept = [session.recorded for session in sessions if session.recorded is not None]
    bound = {pod: where for decisions in kept for pod, (where, _) in decisions.binds.items()}
    assert {pod.partition("/")[2][0]: where for pod, where in bound.items()} == {"a": "n3", "b": "n2", "c": "n4"}
    for session in sessions:
        assert session.outcome is not None and not session.outcome.session.problems


def test_a_file_that_stands_alone_holds_what_it_is_shown_as_well(tmp_path: Path) -> None:
    with recorded(tmp_path) as scheduler:
        scheduler.run()
        scheduler.cache._journal._size = 1 << 40
        scheduler.run(2)
    (first, second) = scheduler.files
    (later, last) = replay(second)
    assert len(list(replay(first))) == 1 and later.same and last.same
    assert later.outcome is not None and not later.outcome.session.problems


def test_without_an_extender_nothing_of_it_is_kept(tmp_path: Path) -> None:
    scheduler = Recorded(tmp_path, some_cluster()).run(2)
    frames = [frame for path in scheduler.files for frame in read_frames(path)]
    assert not any(isinstance(frame, Original | Answered) for frame in frames)


def ask(replies: ReplayedExternalCalls, url: str, body: bytes) -> str:
    (reply,) = replies.post([ExternalRequest(url, body, 1.0)])
    return reply.problem or reply.body.decode()


def heard(*replies: tuple[str, bytes, ExternalReply]) -> Answered:
    answered = Answered()

    class ExternalCalls:
        def post(self, requests: Any) -> list[ExternalReply]:
            return [reply for _, _, reply in replies]

    RecordedExternalCalls(ExternalCalls(), answered).post([ExternalRequest(url, body, 1.0) for url, body, _ in replies])
    return msgspec.msgpack.decode(msgspec.msgpack.encode(answered), type=Answered)


def test_a_question_is_known_by_what_is_asked_and_where_in_whatever_order() -> None:
    answered = heard(
        ("u/v", b'{"a":1,"b":{"c":2,"d":3}}', ExternalReply(b"first")),
        ("u/w", b'{"a":1}', ExternalReply(b"second")),
        ("u/w", b'{"a":1}', ExternalReply(problem="status 500")),
    )
    replies = ReplayedExternalCalls(answered)
    assert ask(replies, "u/w", b'{"a":1}') == "second"
    assert ask(replies, "u/v", b'{"b":{"d":3,"c":2},"a":1}') == "first"
    assert [ask(replies, "u/w", b'{"a":1}') for _ in range(2)] == ["status 500"] * 2


@pytest.mark.parametrize("body", [b'{"a":2}', b"no JSON"])
def test_what_was_not_asked_then_is_not_answered(body: bytes) -> None:
    answered = heard(("u", b'{"a":1}', ExternalReply(b"first")))
    assert ask(ReplayedExternalCalls(answered), "u", body) == "not asked when this was recorded"


def test_replies_that_were_recorded_without_their_questions_are_given_in_their_order() -> None:
    replies = ReplayedExternalCalls(Answered([(b"first", "", False), (b"second", "", False)]))
    assert [ask(replies, "u", b"{}") for _ in range(3)] == ["first", "second", "not asked when this was recorded"]
