"""Validation of Pod templates by the API server: requests, answers, and an unreachable server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from scheduler.cluster.kube.admission import templates as module
from scheduler.cluster.kube.admission.templates import (
    ATTEMPTS,
    CACHE_SECONDS,
    MAX_IN_FLIGHT_PER_JOB,
    Findings,
    TemplateValidator,
)
from scheduler.webhooks.contract import TemplateCheck, ValidationResult
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, serving, until

PATH = "/api/v1/namespaces/ours/podtemplates"
GOOD = b'{"spec":{"good":1}}'
BAD = b'{"spec":{"bad":1}}'
Scenario = Callable[[FakeApi, TemplateValidator], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        async with serving() as (api, client):
            await scenario(api, TemplateValidator(client, "ours"))

    virtual_time.run(main())


@pytest.fixture(autouse=True)
def short_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_DELAY", 0.001)


def status(code: int, message: str, *causes: dict[str, str]) -> web.Response:
    return web.json_response({"message": message, "reason": "R", "details": {"causes": list(causes)}}, status=code)


def refuse_bad_templates(answer: Callable[[], web.Response]) -> Callable[[Call, web.Request], Awaitable[Answer]]:
    """A handler that refuses bad templates only."""

    async def handler(call: Call, request: web.Request) -> Answer:
        return answer() if "bad" in call.body["template"]["spec"] else {}

    return handler


def test_a_template_is_sent_as_a_dry_run_create_in_the_namespace_of_the_server() -> None:
    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.answer("POST", PATH)
        assert await validator.validate([GOOD], 5.0) == Findings([""], [])
        (call,) = api.calls
        assert (call.method, call.path) == ("POST", PATH)
        assert call.query == {"dryRun": "All", "fieldValidation": "Ignore"}
        assert call.body == {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"generateName": "volcano-py-"},
            "template": {"spec": {"good": 1}},
        }

    run(scenario)


def test_causes_become_problems_in_the_order_of_the_api_server() -> None:
    causes = (
        {"reason": "FieldValueRequired", "message": "Required value", "field": "template.spec.containers[0].image"},
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": must be y', "field": "template.spec.hostname"},
        {"reason": "FieldManagerConflict"},
    )

    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.on("POST", PATH, refuse_bad_templates(lambda: status(422, "is invalid: [...]", *causes)))
        findings = await validator.validate([GOOD, BAD], 5.0)
        problems = (
            'template.spec.containers[0].image: Required value. template.spec.hostname: Invalid value: "x": must be y. '
        )
        assert findings == Findings(["", problems], [])

    run(scenario)


@pytest.mark.parametrize(
    ("code", "message", "problem"),
    [
        (422, "podtemplates is invalid: too many crows", "template: podtemplates is invalid: too many crows. "),
        (
            400,
            'PodTemplate in version "v1" cannot be handled as a PodTemplate: json: cannot unmarshal number into Go '
            "struct field EnvVar.template.spec.containers.env.value of type string",
            "template: json: cannot unmarshal number into Go struct field EnvVar.template.spec.containers.env.value of "
            "type string. ",
        ),
        (
            400,
            'admission webhook "w" denied the request: no',
            'template: admission webhook "w" denied the request: no. ',
        ),
    ],
)
def test_the_message_of_a_refusal_without_causes_is_the_problem(code: int, message: str, problem: str) -> None:
    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.on("POST", PATH, refuse_bad_templates(lambda: status(code, message)))
        assert await validator.validate([BAD], 5.0) == Findings([problem], [])

    run(scenario)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (403, "PodTemplates may not be created in namespace ours, not even in a dry run (403)"),
        (404, "there is no namespace ours (404)"),
        (401, "the API server answered 401 R"),
        (500, "the API server answered 500 R"),
        (429, "the API server answered 429 R"),
    ],
)
def test_an_error_that_is_not_about_the_template_leaves_it_unvalidated(code: int, reason: str) -> None:
    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.on("POST", PATH, refuse_bad_templates(lambda: status(code, "the secrets of the namespace")))
        findings = await validator.validate([BAD], 5.0)
        assert findings == Findings([""], [0], reason, f"{code} R: the secrets of the namespace")
        validation = ValidationResult([TemplateCheck(0, 3)], [BAD])
        unvalidated = f"1 of 1 Pod templates could not be validated, the first that of spec.task[3]: {reason}"
        assert findings.unvalidated(validation) == unvalidated

    run(scenario)


def test_a_failed_request_is_retried() -> None:
    answers = [status(503, "not yet"), None, web.json_response({}, status=201)]

    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            answer = answers.pop(0)
            if answer is None and request.transport is not None:
                request.transport.close()
            return answer

        api.on("POST", PATH, handler)
        assert await validator.validate([GOOD], 5.0) == Findings([""], [])
        assert (answers, len(api.calls)) == ([], ATTEMPTS)

    run(scenario)


def test_an_unreachable_api_server_leaves_all_templates_unvalidated() -> None:
    async def main() -> None:
        async with serving() as (api, client):
            validator = TemplateValidator(client, "ours")
            api.answer("POST", PATH)
            await validator.validate([GOOD], 5.0)
        client_of_nothing = validator._client
        await client_of_nothing.start()  # the server is stopped, the client started again
        try:
            findings = await validator.validate([GOOD, BAD, b"{}"], 5.0)
        finally:
            await client_of_nothing.close()
        assert findings.problems == ["", "", ""]
        assert findings.not_validated == [1, 2], "a template that was valid a moment ago is known"
        assert findings.reason == "the API server does not answer"
        assert "127.0.0.1" in findings.answer

    virtual_time.run(main())


def test_templates_without_an_answer_in_time_are_unvalidated_and_the_others_validated() -> None:
    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            if "slow" in call.body["template"]:
                await asyncio.sleep(30)
            return {}

        api.on("POST", PATH, handler)
        findings = await validator.validate([GOOD, b'{"slow":1}', b"{}"], 1.0)
        reason = "the API server did not answer in the 1.0 s that were left"
        assert findings == Findings(["", "", ""], [1], reason)
        assert (await validator.validate([GOOD], 0.0)).not_validated == []
        assert (await validator.validate([b'{"other":1}'], -1.0)).not_validated == [0]

    run(scenario)


class InFlightCounter:
    """A handler that counts the requests in flight; it answers none before so many are (0: each after a moment)."""

    def __init__(self, awaited: int = 0) -> None:
        self.now = self.most = 0
        self.awaited = awaited

    async def __call__(self, call: Call, request: web.Request) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        await until(lambda: self.most >= self.awaited)
        await asyncio.sleep(0.002)
        self.now -= 1
        return {}


def distinct(prefix: str, count: int) -> list[bytes]:
    return [b'{"metadata":{"labels":{"%s":"%d"}}}' % (prefix.encode(), i) for i in range(count)]


def test_concurrent_requests_are_limited_per_job_and_in_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", MAX_IN_FLIGHT_PER_JOB + 2)

    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        gauge = InFlightCounter(MAX_IN_FLIGHT_PER_JOB)
        api.on("POST", PATH, gauge)
        await validator.validate(distinct("a", 50), 30.0)
        assert (gauge.most, len(api.calls)) == (MAX_IN_FLIGHT_PER_JOB, 50)
        gauge.awaited += 2
        await asyncio.gather(*(validator.validate(distinct(prefix, 20), 30.0) for prefix in "bcd"))
        assert (gauge.most, len(api.calls)) == (MAX_IN_FLIGHT_PER_JOB + 2, 110)

    run(scenario)


def test_a_job_with_many_templates_does_not_block_one_with_few() -> None:
    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.on("POST", PATH, InFlightCounter())
        many = [asyncio.create_task(validator.validate(distinct(f"j{i}", 200), 60.0)) for i in range(8)]
        while len(api.calls) < 100:
            await asyncio.sleep(0.001)
        await validator.validate([GOOD], 30.0)
        assert not any(each.done() for each in many)
        await asyncio.gather(*many)

    run(scenario)


def test_a_valid_template_is_cached_for_a_minute_and_an_invalid_one_is_not_cached() -> None:
    async def main() -> None:
        now = 1000.0
        async with serving() as (api, client):
            validator = TemplateValidator(client, "ours", lambda: now)
            api.on("POST", PATH, refuse_bad_templates(lambda: status(422, "no")))
            for _ in range(3):
                await validator.validate([GOOD, BAD], 5.0)
            sent = [call.body["template"]["spec"] for call in api.calls]
            assert (sent.count({"good": 1}), sent.count({"bad": 1})) == (1, 3)
            now += CACHE_SECONDS
            await validator.validate([GOOD], 5.0)
            assert len(api.calls) == 5

    virtual_time.run(main())


def test_the_number_of_cached_templates_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_SIZE", 3)

    async def scenario(api: FakeApi, validator: TemplateValidator) -> None:
        api.answer("POST", PATH)
        listed = distinct("a", 5)
        for each in listed:
            await validator.validate([each], 5.0)
        await validator.validate(listed[2:], 5.0)
        assert len(api.calls) == 5
        await validator.validate(listed[:2], 5.0)
        assert len(api.calls) == 7

    run(scenario)


def test_complete_findings_have_no_gap() -> None:
    validation: Any = ValidationResult([TemplateCheck(0, 0)], [GOOD])
    assert Findings([""], []).unvalidated(validation) == ""
