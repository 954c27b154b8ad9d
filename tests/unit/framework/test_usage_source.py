"""The section ``metrics:`` as Volcano reads it and as its documents write it, and its invalid forms."""

from typing import Any

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.framework.configuration import SourceType, UsageSource, parse_usage_source
from scheduler.framework.configuration_file import parse_configuration

ELASTIC = UsageSource(
    SourceType.ELASTICSEARCH,
    "https://es:9200",
    10.0,
    verify_tls=False,
    index="mine",
    username="me",
    password="secret",
    host_field="host.name",
)


def test_nested_keys_and_keys_with_dots_are_the_same() -> None:
    plain = {"type": "elasticsearch", "address": "https://es:9200/", "interval": "10s"}
    fields = {"index": "mine", "username": "me", "password": "secret", "hostnameFieldName": "host.name"}
    nested = plain | {"tls": {"insecureSkipVerify": "true"}, "elasticsearch": fields}
    dotted = plain | {"tls.insecureSkipVerify": True, **{f"elasticsearch.{key}": v for key, v in fields.items()}}
    assert parse_usage_source(nested, "m") == parse_usage_source(dotted, "m") == (ELASTIC, [])


def test_what_is_not_said_has_a_default() -> None:
    source, problems = parse_usage_source({"type": "elasticsearch", "address": "http://es"}, "m")
    assert source == UsageSource(SourceType.ELASTICSEARCH, "http://es", 30.0, True, "metricbeat-*") and not problems
    assert source.host_field == "host.hostname"


def test_the_adaptor_needs_no_address() -> None:
    assert parse_usage_source({"type": "prometheus_adaptor"}, "m") == (UsageSource(SourceType.PROMETHEUS_ADAPTOR), [])


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(ELASTIC)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"address": "http://p"}, "m: no type: the load of nodes is not asked for"),
        ({"type": "graphite"}, "m.type: 'graphite' is none of prometheus, prometheus_adaptor, elasticsearch;"),
        ({"type": "prometheus"}, "m.address: missing; the load of nodes is not asked for"),
        ({"type": "prometheus", "address": "p:9090"}, "m.address: not an http or https URL: 'p:9090';"),
        ({"type": "prometheus", "address": "http://p:99999"}, "m.address: not an http or https URL"),
        ({"type": "prometheus", "address": ["http://p"]}, "m.address: missing"),
    ],
)
def test_an_invalid_section_is_reported_and_no_source_is_queried(section: dict[str, Any], problem: str) -> None:
    source, problems = parse_usage_source(section, "m")
    assert source is None and len(problems) == 1 and problems[0].startswith(problem)


@pytest.mark.parametrize("interval", ["soon", "0s", "-3s", "10", "5ms"])
def test_an_invalid_interval_is_reported_and_the_default_is_used(interval: str) -> None:
    source, problems = parse_usage_source({"type": "prometheus", "address": "http://p", "interval": interval}, "m")
    assert source is not None and source.interval == 30.0
    assert problems[0].startswith("m.interval:") and problems[0].endswith("using 30s")


PLAIN = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"


def test_such_a_section_is_a_warning_and_not_the_end_of_the_file() -> None:
    configuration = parse_configuration(f"{PLAIN}metrics: {{type: nonsense}}\n", "conf.yaml")
    assert configuration.metrics is None
    assert configuration.warnings[0].startswith("conf.yaml: metrics.type: 'nonsense' is none of")


def test_a_missing_section_causes_no_warning() -> None:
    configuration = parse_configuration(PLAIN)
    assert configuration.metrics is None and not configuration.warnings
