"""Compares the rights that the chart grants to the roles with what the roles requested, over all tests of a run.

The API servers on which roles run with the rights of the chart write audit logs (``tests.integration.audit``), and each
process of the run puts the requests into one folder. At the end of the run, the pytest plugin ``RightsInUse`` reports
requests that RBAC refused, and, if all integration tests ran, rights that no request needed. Either fails the run.
``docs/security.md`` lists the exceptions.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest

from tests.tables import ROOT, rows

FOLDER: Final = "VOLCANO_PY_REQUESTS"
"""The variable with the folder into which the processes of a run put requests."""
ROLES: Final = ("scheduler", "controllers", "webhooks")
ALL_VALUES: Final = (
    "queueAdmissionGates=true",
    "scheduler.readMindCluster=true",
    "scheduler.rescheduling=true",
    "scheduler.externalRescheduling=true",
    "scheduler.dyingWords=true",
    "scheduler.gracefulExit=true",
    "scheduler.shards={s0,s1,s2,s3}",
    "scheduler.visibility.enabled=true",
    "webhooks.cardOverGrant=warn",
)
"""All values of the chart that add rights."""
_INTEGRATION = ROOT / "tests" / "integration"
_CHART, _KIND = "tests/integration/test_chart.py", "tests/integration/test_kind.py"
_WHOLE = {"", "not kind", "not node"}
"""The parts of the mark expression of a run of all integration tests."""
_WITHOUT_REQUESTS = "/finalizers"
"""Rights that only an admission plugin of the API server checks."""


class Request(NamedTuple):
    """Requests of a role that do not differ in what RBAC compares."""

    role: str
    verb: str
    group: str
    resource: str
    """With the subresource."""
    namespace: str
    name: str
    status: int
    """The HTTP status code."""
    forbidden: bool
    """Whether the role lacked a right."""

    def __str__(self) -> str:
        return f"{self.role}: {self.verb} {_with_group(self.resource, self.group)} {self.namespace}/{self.name}"


class Right(NamedTuple):
    """A verb for a resource that the chart grants to a role."""

    role: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    """"": everywhere."""
    names: tuple[str, ...] = ()
    """No names: all objects."""

    def covers(self, request: Request) -> bool:
        return (
            self[:4] == request[:4]
            and self.namespace in ("", request.namespace)
            and (not self.names or request.name in self.names)
        )

    @property
    def short(self) -> tuple[str, str]:
        """The role and the right, without where and to what it is limited."""
        return self.role, f"{self.verb} {_with_group(self.resource, self.group)}"

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        names = f" {', '.join(self.names)}" if self.names else ""
        return f"{': '.join(self.short)}{where}{names}"


def _with_group(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def granted(objects: Iterable[Mapping[str, Any]], prefix: str) -> set[Right]:
    """The rights that roles and their bindings grant to the service accounts with this prefix before the name of a
    role."""
    found = list(objects)
    rules = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["rules"]
        for each in found
        if each["kind"] in ("ClusterRole", "Role")
    }
    roles = {f"{prefix}{role}": role for role in ROLES}
    return {
        Right(roles[subject["name"]], verb, group, resource, namespace, tuple(rule.get("resourceNames", ())))
        for binding in found
        if binding["kind"] in ("ClusterRoleBinding", "RoleBinding")
        for namespace in [binding["metadata"].get("namespace", "")]
        for reference in [binding["roleRef"]]
        for subject in binding["subjects"]
        if subject["kind"] == "ServiceAccount" and subject["name"] in roles
        for rule in rules[reference["kind"], namespace if reference["kind"] == "Role" else "", reference["name"]]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def unused(rights: Iterable[Right], requests: Iterable[Request]) -> list[Right]:
    """The rights that no request needed, without those that cause no request."""
    asked = {request[:4] for request in requests}
    kept = [right for right in rights if not right.resource.endswith(_WITHOUT_REQUESTS)]
    requests = [*requests]
    return sorted(
        right for right in kept if right[:4] not in asked or not any(right.covers(request) for request in requests)
    )


def explained() -> dict[tuple[str, str], str]:
    """The role and the right (as in "get pods") of each exception in the page on security, with its reason."""
    found = {}
    for role, right, reason in rows("security.md", "role"):
        for each in right.replace("`", "").split(", "):
            found[role, each] = reason
    return found


def collect(requests: Counter[Request]) -> None:
    """Puts requests into the folder of this run, if pytest runs."""
    if folder := os.environ.get(FOLDER):
        content = [[*request, number] for request, number in requests.items()]
        (Path(folder) / f"{uuid4().hex}.json").write_text(json.dumps(content), encoding="utf-8")


class RightsInUse:
    """The plugin; it belongs to the process that reports the outcome of the run."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="requests-"))
        os.environ[FOLDER] = str(self._folder)
        self._passed: set[str] = set()
        self._skipped: set[str] = set()
        """The paths of files with a test that passed, that was skipped."""
        self._problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid.partition("::")[0])
        elif report.skipped:
            self._skipped.add(report.nodeid.partition("::")[0])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        requests = self._requests()
        self._problems = [
            f"forbidden: {request} ({number} times)"
            for request, number in sorted(requests.items())
            if request.forbidden
        ]
        if session.exitstatus == 0 and self._complete(session.config):
            rights, reasons = _of_the_chart(), explained()
            self._problems += [f"unused: {right}" for right in unused(rights, requests) if right.short not in reasons]
            unknown = reasons.keys() - {right.short for right in rights}
            self._problems += [
                f"docs/security.md explains a right that no role has: {each}" for each in sorted(unknown)
            ]
        if session.exitstatus == 0 and self._problems:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._problems:
            terminalreporter.section("rights of the chart", red=True)
            for problem in self._problems:
                terminalreporter.write_line(problem)

    def pytest_unconfigure(self) -> None:
        os.environ.pop(FOLDER, None)
        rmtree(self._folder, ignore_errors=True)

    def _requests(self) -> Counter[Request]:
        found: Counter[Request] = Counter()
        for file in self._folder.glob("*.json"):
            for *request, number in json.loads(file.read_text(encoding="utf-8")):
                found[Request(*request)] += number
        return found

    def _complete(self, config: pytest.Config) -> bool:
        """Whether all integration tests ran: no option left tests out, and there was a control plane."""
        if config.option.keyword or not set(config.option.markexpr.split(" and ")) <= _WHOLE:
            return False
        files = {str(file.relative_to(ROOT)) for file in _INTEGRATION.glob("test_*.py")} - {_KIND}
        return _CHART in self._passed and files <= self._passed | self._skipped


def _of_the_chart() -> set[Right]:
    import yaml

    from controlplane import build, manifests

    text = manifests.template(build.ensure() / "helm", *(f"--set={value}" for value in ALL_VALUES))
    return granted(filter(None, yaml.safe_load_all(text)), f"{manifests.RELEASE}-")
