"""The comparison of granted rights with requests, which runs at the end of the integration tests."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import rights_in_use
from tests.rights_in_use import FOLDER, Request, Right, RightsInUse, collect, granted, unused
from tests.tables import ROOT

LIST_PODS = Right("scheduler", "list", "", "pods")
READ_KEY = Right("scheduler", "get", "", "secrets", "volcano-system", ("key",))

UNUSED = [f"unused: {right}" for right in ("scheduler: get secrets in volcano-system key", "scheduler: list pods")]


def request(right: Right, namespace: str = "a", name: str = "", *, forbidden: bool = False) -> Request:
    return Request(*right[:4], namespace, name, 403 if forbidden else 200, forbidden)


def role(kind: str, rule: dict[str, Any], namespace: str = "") -> list[dict[str, Any]]:
    """A role of the scheduler, and its binding."""
    metadata = {"name": "release-scheduler", **({"namespace": namespace} if namespace else {})}
    subjects = [{"kind": "ServiceAccount", "name": "release-scheduler", "namespace": "volcano-system"}]
    reference = {"kind": kind, "name": "release-scheduler"}
    binding = {"kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": subjects}
    return [{"kind": kind, "metadata": metadata, "rules": [rule]}, binding]


def test_rights_follow_from_bindings() -> None:
    objects = [
        *role("ClusterRole", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}),
        *role(
            "Role",
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["key"], "verbs": ["get"]},
            "volcano-system",
        ),
    ]
    assert granted(objects, "release-") == {LIST_PODS, LIST_PODS._replace(verb="watch"), READ_KEY}
    assert granted(objects, "other-") == set()


def test_a_right_without_a_request_is_unused() -> None:
    assert unused([LIST_PODS, READ_KEY], [request(LIST_PODS)]) == [READ_KEY]


@pytest.mark.parametrize(("namespace", "name"), [("volcano-system", "other"), ("a", "key")])
def test_a_right_to_a_name_in_a_namespace_is_not_used_by_requests_for_others(namespace: str, name: str) -> None:
    assert unused([READ_KEY], [request(READ_KEY, namespace, name)]) == [READ_KEY]
    assert unused([READ_KEY], [request(READ_KEY, "volcano-system", "key")]) == []


def test_rights_to_finalizers_need_no_request() -> None:
    assert unused([Right("controllers", "update", "", "pods/finalizers")], []) == []


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(FOLDER, "")  # restored at the end
    made = RightsInUse()
    yield made
    made.pytest_unconfigure()


def finished(plugin: RightsInUse, keyword: str = "some") -> Any:
    """The session after the plugin's hook; ``keyword``: of the option -k."""
    config = SimpleNamespace(option=SimpleNamespace(keyword=keyword, markexpr=""))
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=config)
    plugin.pytest_sessionfinish(session)  # type: ignore[arg-type]
    return session


def test_a_forbidden_request_of_any_process_fails_the_run_and_is_reported(plugin: RightsInUse) -> None:
    collect(Counter({request(LIST_PODS): 3}))
    collect(Counter({request(READ_KEY, name="key", forbidden=True): 2}))
    assert finished(plugin).exitstatus == pytest.ExitCode.TESTS_FAILED
    lines: list[str] = []
    plugin.pytest_terminal_summary(SimpleNamespace(section=lambda *_, **__: None, write_line=lines.append))
    assert lines == ["forbidden: scheduler: get secrets a/key (2 times)"]


def test_requests_with_rights_do_not_fail_the_run(plugin: RightsInUse) -> None:
    collect(Counter({request(LIST_PODS): 3}))
    assert finished(plugin).exitstatus == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("outcomes", "keyword", "reported"),
    [
        (
            {"every file": "passed"},
            "",
            ["unused: scheduler: list pods", "unused: scheduler: get secrets in volcano-system key"],
        ),
        ({"every file": "passed"}, "some", []),
        ({"every file": "passed", "tests/integration/test_chart.py": "skipped"}, "", []),
        ({"tests/integration/test_chart.py": "passed"}, "", []),
    ],
    ids=["all", "selected by -k", "no control plane", "one file"],
)
def test_unused_rights_fail_a_run_of_all_integration_tests(
    plugin: RightsInUse, monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, str], keyword: str, reported: list[str]
) -> None:
    monkeypatch.setattr(rights_in_use, "_of_the_chart", lambda: {LIST_PODS, READ_KEY})
    monkeypatch.setattr(rights_in_use, "explained", dict)
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "tests" / "integration").glob("test_*.py")]
    for file in files if "every file" in outcomes else outcomes:
        outcome = outcomes.get(file) or outcomes.get("every file", "")
        report = SimpleNamespace(
            when="call", nodeid=f"{file}::test_it", passed=outcome == "passed", skipped=outcome == "skipped"
        )
        plugin.pytest_runtest_logreport(report)  # type: ignore[arg-type]
    session = finished(plugin, keyword)
    lines: list[str] = []
    plugin.pytest_terminal_summary(SimpleNamespace(section=lambda *_, **__: None, write_line=lines.append))
    assert sorted(lines) == sorted(reported)
    assert (session.exitstatus == pytest.ExitCode.OK) is not bool(reported)


def test_without_a_run_of_pytest_nothing_is_collected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(FOLDER)
    monkeypatch.chdir(tmp_path)
    collect(Counter({request(LIST_PODS): 1}))
    assert list(tmp_path.iterdir()) == []
