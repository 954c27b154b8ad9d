"""Every query of a dashboard or an alert of the chart, and of Volcano's dashboards, in a Prometheus that scrapes all
roles, kube-state-metrics and the API server; and the alerts with invented series, as `promtool test rules` runs
them."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane import build
from controlplane.client import ApiError
from controlplane.manifests import CHART, RELEASE
from scheduler.api.kinds import NODE, QUEUE, object_path
from scheduler.api.names import CARD_QUOTA
from scheduler.api.quantity import parse_quantity
from tests.integration.dashboard_svg import legend
from tests.integration.installation import Installation
from tests.integration.programs import run
from tests.integration.prometheus import Prometheus
from tests.integration.scraped import CARD, DASHBOARDS, queue, scraped_installation, with_values
from tests.integration.stage import or_skipped, wait

pytestmark = pytest.mark.controlplane

RULES = CHART / "rules" / "volcano-py.yaml"
UNIT_TESTS = Path(__file__).with_name("alerts.test.yaml")
PUBLISHED = yaml.safe_load(Path(__file__).with_name("volcano_dashboards.yaml").read_text(encoding="utf-8"))
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
THRESHOLD = re.compile(r" (?:[<>]=?|==) [0-9.]+")
METRIC = re.compile(r"\bvolcano_(?!namespace\b)[a-zA-Z0-9_]+")


def queries() -> dict[str, str]:
    """Maps each name to a query with example values of the variables."""
    found = {
        f"{name}/{panel['title']}/{target['refId']}": target["expr"]
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    for name, dashboard in DASHBOARDS.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found[f"{name}/${variable['name']}"] = variable["definition"]
    found |= {f"Volcano/{title}/{i}": query for title, those in PUBLISHED.items() for i, query in enumerate(those)}
    found |= {f"alerts/{name}": THRESHOLD.sub("", expression) for name, expression in ALERTS.items()}
    return {name: with_values(query) for name, query in found.items()}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installation, Prometheus, float]]:
    """All roles, a Prometheus that has scraped them while jobs arrived, and the time when it began."""
    with scraped_installation(tmp_path_factory.mktemp("dashboards")) as it:
        yield it


@pytest.fixture(scope="module")
def scraped(running: tuple[Installation, Prometheus, float]) -> tuple[Prometheus, float]:
    return running[1:]


def test_every_query_returns_data(scraped: tuple[Prometheus, float]) -> None:
    prometheus, began = scraped
    known = prometheus.names()

    def empty() -> dict[str, str]:
        return {name: query for name, query in queries().items() if not _found(prometheus, query, began)}

    wait(lambda: not empty(), 30, empty)
    assert not {name: METRIC.findall(query) for name, query in queries().items() if set(METRIC.findall(query)) - known}


def test_every_series_of_a_panel_has_a_name_of_its_own(scraped: tuple[Prometheus, float]) -> None:
    prometheus, began = scraped
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard["panels"]:
            names = Counter(
                legend(target["legendFormat"], series)
                for target in panel.get("targets", ())
                if "legendFormat" in target
                for series in prometheus.series(with_values(target["expr"]), began, time.time())
            )
            assert all(number == 1 for number in names.values()), (name, panel["title"], names)
            assert all(names), (name, panel["title"])


def test_prometheus_kubectl_and_the_command_line_show_the_same_deserved_amounts(
    running: tuple[Installation, Prometheus, float],
) -> None:
    installed, prometheus, _ = running

    def printed(*arguments: str) -> str:
        done = run([*arguments, f"--kubeconfig={installed.plane.kubeconfig}"])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shown() -> dict[str, int]:
        """The deserved cpu of queue research in each view, in thousandths."""
        status = installed.api.get(object_path(QUEUE, "", "research"))["status"]
        columns = "custom-columns=:.status.deserved.cpu"
        row = [line.split() for line in printed("queue", "get", "research").splitlines() if line.startswith("cpu ")]
        (top,) = json.loads(printed("queue", "top", "research", "-o", "json"))["items"]
        texts = {
            "status": status["deserved"]["cpu"],
            "kubectl": installed.plane.kubectl("get", "queue", "research", "-o", columns).split()[-1],
            "queue get": row[0][2],
            "queue top": next(each["deserved"] for each in top["amounts"] if each["resource"] == "cpu"),
        }
        metric = 'volcano_queue_deserved_milli_cpu{queue_name="research"}'
        counted = {"metric": int(prometheus.numbers(metric, time.time(), time.time())[-1])}
        return counted | {view: parse_quantity(text, 1000) for view, text in texts.items()}

    def equal() -> bool:
        return len(set(shown().values())) == 1

    wait(equal, 60, shown)


def test_a_node_that_leaves_is_an_alert_with_queue_card_and_numbers_until_it_is_back(
    running: tuple[Installation, Prometheus, float],
) -> None:
    installed, prometheus, _ = running
    api, path = installed.api, object_path(NODE, "", "gpu-1")

    def alerts() -> list[str]:
        found = prometheus.get("alerts")["alerts"]
        of = [each for each in found if each["labels"]["alertname"] == "VolcanoPyCardQuota"]
        return [each["annotations"]["summary"] for each in of if each["state"] == "firing"]

    def says(problem: str, granted: int, existing: int) -> list[str]:
        numbers = f"{granted} are granted by quotas, {existing} exist and {existing} are healthy."
        return [f"{problem} in queue research: of card {CARD}, {numbers}"]

    def events(reason: str) -> list[str]:
        found = api.get("/api/v1/namespaces/default/events")["items"]
        of = {"kind": "Queue", "name": "research"}
        return [
            each["message"]
            for each in found
            if each["reason"] == reason and each["involvedObject"].items() >= of.items()
        ]

    def card() -> dict[str, str]:
        found: dict[str, str] = api.get(object_path(QUEUE, "", "research"))["status"]["cards"][CARD]
        return {key: its for key, its in found.items() if key in ("granted", "existing", "healthy", "problem")}

    wait(lambda: alerts() == says("CardOverGranted", 32, 16), 60, alerts)
    (warning,) = events("CardOverGranted")  # once, however many sessions there were
    assert warning.endswith("32 granted, 16 existing, 16 healthy; quota of this queue: 32")
    quota = {"metadata": {"annotations": {CARD_QUOTA: json.dumps({CARD: 16})}}}
    api.patch(object_path(QUEUE, "", "research"), quota)
    wait(lambda: not alerts() and len(events("CardQuotaResolved")) == 1, 60, alerts)
    assert card() == {"granted": "16", "existing": "16", "healthy": "16"}

    node = api.get(path)
    api.delete(path)
    wait(lambda: alerts() == says("CardOverGranted", 16, 8), 60, alerts)
    wait(lambda: card() == {"granted": "16", "existing": "8", "healthy": "8", "problem": "CardOverGranted"}, 30, card)

    metadata = {key: node["metadata"].get(key) for key in ("name", "labels", "annotations")}
    status = {key: node["status"][key] for key in ("capacity", "allocatable", "conditions") if key in node["status"]}
    api.create(NODE.path, {"metadata": metadata, "status": status})
    wait(lambda: not alerts() and card()["healthy"] == "16", 60, alerts)

    other = {"metadata": {"annotations": {CARD_QUOTA: json.dumps({"NVIDIA-H800": 1})}}}
    api.patch(object_path(QUEUE, "", "research"), other)
    both = [
        "CardNotFound in queue research: of card NVIDIA-H800, 1 are granted by quotas, 0 exist and 0 are healthy.",
        f"CardNotGranted: of card {CARD}, 0 are granted by quotas, 16 exist and 16 are healthy.",
    ]
    wait(lambda: sorted(alerts()) == both, 60, alerts)
    api.patch(object_path(QUEUE, "", "research"), quota)
    wait(lambda: not alerts(), 60, alerts)


def test_admission_refuses_a_quota_of_more_cards_than_nodes_have_if_the_chart_says_so(
    running: tuple[Installation, Prometheus, float],
) -> None:
    installed, _, _ = running
    api = installed.api
    api.patch(object_path(QUEUE, "", "research"), {"metadata": {"annotations": {CARD_QUOTA: json.dumps({CARD: 15})}}})
    api.create(QUEUE.path, queue("accepted", {"weight": 1}, 100))  # by default, over-granting is allowed
    installed.helm("upgrade", RELEASE, CHART, "--reuse-values", "--set=webhooks.cardOverGrant=refuse")
    installed.roles.pop("webhooks").process.stop()
    installed.start("webhooks")

    def refused(name: str, cards: int) -> str:
        with pytest.raises(ApiError) as error:
            api.create(QUEUE.path, queue(name, {"weight": 1}, cards))
        return str(error.value)

    assert "116 granted, 16 existing, 16 healthy; quota of this queue: 1" in refused("speech", 1)
    lower = {"metadata": {"annotations": {CARD_QUOTA: json.dumps({CARD: 0})}}}
    api.patch(object_path(QUEUE, "", "accepted"), lower)  # a lower quota is accepted in any case
    api.create(QUEUE.path, queue("speech", {"weight": 1}, 1))
    assert f"{CARD}: 17 granted, 16 existing, 16 healthy; quota of this queue: 1" in refused("right-after", 1)


def _found(prometheus: Prometheus, query: str, began: float) -> bool:
    """Whether a query returns data, or a variable has values."""
    variable = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    if variable:
        return bool(prometheus.get(f"label/{variable[2]}/values", **{"match[]": variable[1]}))
    return bool(prometheus.numbers(query, began, time.time()))


def promtool(*arguments: str | Path) -> str:
    with or_skipped():
        binaries = build.ensure()
    done = subprocess.run([binaries / "promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", sorted(RULES.parent.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_rules_are_valid(file: Path) -> None:
    rules = [rule for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", file)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    cases = yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))
    fires: dict[str, set[bool]] = {name: set() for name in ALERTS}
    for case in cases["tests"]:
        for expectation in case["alert_rule_test"]:
            fires[expectation["alertname"]].add(bool(expectation["exp_alerts"]))
    assert all(both == {True, False} for both in fires.values()), fires
    text = UNIT_TESTS.read_text(encoding="utf-8").replace("RULES", str(RULES))
    file = tmp_path / "alerts.yaml"
    file.write_text(text, encoding="utf-8")
    promtool("test", "rules", file)
