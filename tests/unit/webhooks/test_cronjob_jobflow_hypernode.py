"""CronJobs, JobFlows and HyperNodes."""

from typing import Any

import pytest

from scheduler.api.kinds import CRON_JOB, HYPER_NODE, JOB_FLOW, Kind
from scheduler.webhooks.contract import Json
from tests.unit.webhooks.clusters import changed, created

NOT_CRON = "schedule is not a valid cron expression"


def cron_job(name: str = "c", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"schedule": "*/5 * * * *", **spec}}


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({}, ""),
        ({"schedule": "@every 1h30m"}, ""),
        ({"schedule": ""}, "schedule is required, but got empty"),
        (
            {"schedule": "TZ=UTC * * * * *"},
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
        ),
        ({"schedule": "every morning"}, NOT_CRON),
        ({"timeZone": "Europe/Berlin"}, ""),
        ({"timeZone": ""}, "timeZone must be nil or non-empty string, got empty string"),
        ({"timeZone": "Mars/Olympus"}, "invalid timeZone"),
        ({"timeZone": "America"}, "invalid timeZone"),
        ({"timeZone": "../etc"}, "unknown timeZone invalid timeZone"),
        (
            {"timeZone": "local"},
            "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
        ),
        ({"schedule": "x", "timeZone": "a b"}, f"{NOT_CRON} unknown timeZone invalid timeZone"),
    ],
)
def test_a_cron_job_needs_a_schedule_and_a_time_zone_that_exist(spec: Json, refusal: str) -> None:
    assert created(CRON_JOB, cron_job(**spec)).refusal == refusal


def test_the_name_of_a_cron_job_leaves_room_for_the_suffix_of_its_jobs() -> None:
    too_long = "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
    assert created(CRON_JOB, cron_job("x" * 52)).refusal == ""
    assert created(CRON_JOB, cron_job("x" * 53)).refusal == too_long
    assert created(CRON_JOB, cron_job("x" * 53, schedule="x")).refusal == f"{NOT_CRON}; {too_long}"
    assert created(CRON_JOB, cron_job("-x")).refusal.startswith('invalid cronJob name "-x": name part must consist of')


NOT_A_DAG = "jobflow Flow is not DAG: none of these can start, because each waits for another"


def flow(**targets: list[str] | None) -> Json:
    flows = [{"name": name, **({} if to is None else {"dependsOn": {"targets": to}})} for name, to in targets.items()]
    return {"metadata": {"name": "f"}, "spec": {"flows": flows}}


@pytest.mark.parametrize(
    ("targets", "refusal"),
    [
        ({"a": None, "b": ["a"], "c": ["a", "b"]}, ""),
        ({}, ""),
        ({"a": ["a"]}, f"{NOT_A_DAG}: a"),
        ({"a": ["c"], "b": ["a"], "c": ["b"]}, f"{NOT_A_DAG}: b, c, a"),
        ({"a": ["x"]}, "jobflow Flow is not DAG: vertex is not defined: x"),
    ],
)
def test_the_flows_of_a_job_flow_form_a_dag(targets: dict[str, list[str] | None], refusal: str) -> None:
    assert created(JOB_FLOW, flow(**targets)).refusal == refusal


def test_a_step_that_occurs_twice_waits_for_the_targets_of_both() -> None:
    raw = flow(a=["b"], b=None)
    raw["spec"]["flows"] += flow(b=["a"], a=None)["spec"]["flows"]
    assert created(JOB_FLOW, raw).refusal == f"{NOT_A_DAG}: b, a"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("x" * 61, ""),
        ("x" * 62, "name part must be no more than 63 bytes"),
        ("X", "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"),
        ("x-", "name part must consist of alphanumeric characters"),
    ],
)
def test_a_step_whose_job_can_have_no_name_is_refused(step: str, problem: str) -> None:
    refusal = created(JOB_FLOW, flow(a=None, **{step: ["a"]})).refusal
    start = f'spec.flows[1].name: Invalid value: "{step}": no job can have the name f-{step}: {problem}'
    assert refusal.startswith(start) if problem else refusal == ""


def test_a_job_flow_whose_name_is_generated_is_not_checked_for_names_of_jobs() -> None:
    raw = {**flow(**{"x" * 100: None}), "metadata": {"generateName": "f-"}}
    assert created(JOB_FLOW, raw).refusal == ""


def test_a_job_flow_has_a_limited_number_of_steps() -> None:
    assert created(JOB_FLOW, flow(**{f"s{i}": None for i in range(2000)})).refusal == ""
    refusal = "spec.flows: Too many: 2001: must have at most 2000 items"
    assert created(JOB_FLOW, flow(**{f"s{i}": None for i in range(2001)})).refusal == refusal


def hyper_node(*patterns: str) -> Json:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}} for pattern in patterns]
    return {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": members}}


def test_a_hyper_node_needs_members() -> None:
    refusal = "[].spec.members: Invalid value: null: member must have at least one member"
    assert created(HYPER_NODE, hyper_node()).refusal == refusal
    named = {"members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]}
    assert created(HYPER_NODE, {"metadata": {"name": "h"}, "spec": named}).refusal == ""


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("node-[0-9]+", ""),
        (r"^(a|b)\.rack$", ""),
        ("[(?=]", ""),
        ("(?i)RACK", ""),
        ("a(b", "missing closing ): `a(b`"),
        ("a)b", "unexpected ): `a)b`"),
        ("a[b", "missing closing ]: `[b`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_the_patterns_of_a_hyper_node_must_be_regular_expressions(pattern: str, fault: str) -> None:
    refusal = created(HYPER_NODE, hyper_node("n.*", pattern)).refusal
    assert refusal.endswith(f"member regexMatch pattern is invalid: error parsing regexp: {fault}") is bool(fault)
    assert bool(refusal) is bool(fault)


def test_a_pattern_that_is_too_long_is_refused() -> None:
    refusal = created(HYPER_NODE, hyper_node("a" * 5000)).refusal
    assert refusal.endswith("member regexMatch pattern is invalid: it has 5000 characters, more than 4096")


# --- what is stored already ---
@pytest.mark.parametrize(
    ("kind", "invalid", "valid"),
    [
        (CRON_JOB, cron_job(schedule="every morning"), cron_job()),
        (JOB_FLOW, flow(a=["b"], b=["a"]), flow(a=None, b=["a"])),
        (HYPER_NODE, hyper_node("a(b"), hyper_node("a.*")),
    ],
)
def test_an_invalid_stored_object_can_be_labelled_and_mended_and_no_other_made_like_it(
    kind: Kind, invalid: Json, valid: Json
) -> None:
    name = invalid["metadata"]["name"]
    labelled = {**invalid, "metadata": {"name": name, "labels": {"a": "b"}, "finalizers": []}, "status": {"state": 7}}
    assert changed(kind, invalid, labelled) == ""
    assert changed(kind, invalid, valid) == ""
    assert changed(kind, valid, invalid) == created(kind, invalid).refusal != ""
