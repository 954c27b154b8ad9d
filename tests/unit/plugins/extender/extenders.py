"""A fake extender that returns configured answers and records the requests."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import run_cycle
from scheduler.framework.external_calls import ExternalReply, ExternalRequest
from tests.builders import World, configuration

URL = "http://extender.example.com/v1"
VERBS = [
    *("onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable", "queueOverused"),
    *("jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc"),
]
Answer = Callable[[Any], Any] | Mapping[str, Any] | ExternalReply


class FakeExtender:
    """``answers``: maps a verb to its answer, a dictionary or a function of the request; all other verbs are answered
    with ``{}``."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.requests: list[ExternalRequest] = []

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        self.requests += requests
        return [self._reply(request) for request in requests]

    def _reply(self, request: ExternalRequest) -> ExternalReply:
        verb, question = request.url.rsplit("/", 1)[1], json.loads(request.body)
        self.asked.append((verb, question))
        answer = self.answers.get(verb, {})
        if callable(answer):
            answer = answer(question)
        return answer if isinstance(answer, ExternalReply) else ExternalReply(json.dumps(answer).encode())

    def questions(self, verb: str) -> list[Any]:
        return [question for asked, question in self.asked if asked == verb]

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


def conf(
    verbs: str, *, actions: str = "enqueue, allocate, backfill", first: bool = False, **arguments: Any
) -> Configuration:
    """A configuration with the extender and these verbs, in the last tier or in the first."""
    settings = {"extender.urlPrefix": f"{URL}/", **{f"extender.{verb}Verb": verb for verb in verbs.split()}}
    settings |= {f"extender.{key}": value for key, value in arguments.items()}
    others: Sequence[Sequence[str]] = (["priority", "gang"], ["predicates", "proportion"])
    tiers = (["extender", *others[0]], others[1]) if first else (others[0], [*others[1], "extender"])
    return configuration(*tiers, actions=actions, arguments={"extender": settings})


def schedule(world: World, settings: Configuration, extender: FakeExtender) -> World:
    """Runs one cycle and carries out its decisions."""
    cache = world.cluster.cache
    world.outcome = run_cycle(cache.snapshot(world.cluster.now), settings, external_calls=extender)
    cache.assume(world.outcome.decisions)
    world.cluster.carry_out(world.outcome.decisions, world.outcome.malformed)
    world.cluster.tick()
    return world
