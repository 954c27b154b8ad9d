"""The dashboards of the chart against the parts of Grafana's schema that they use."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

DASHBOARDS = sorted((Path(__file__).resolve().parents[3] / "charts" / "volcano-py" / "dashboards").glob("*.json"))
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
Json = dict[str, Any]

DASHBOARD = {
    "uid",
    "title",
    "description",
    "tags",
    "editable",
    "graphTooltip",
    "schemaVersion",
    "refresh",
    "time",
    "timezone",
    "annotations",
    "links",
    "templating",
    "panels",
}
PANEL = {"id", "type", "title", "description", "datasource", "gridPos", "targets", "fieldConfig", "options"}
ROW = {"id", "type", "title", "collapsed", "gridPos", "panels"}
OPTIONS = {
    "timeseries": {"legend", "tooltip"},
    "stat": {"reduceOptions", "colorMode", "graphMode", "justifyMode", "orientation", "textMode"},
    "bargauge": {"reduceOptions", "displayMode", "orientation", "valueMode"},
    "table": {"showHeader", "cellHeight"},
    "status-history": {"showValue", "rowHeight", "colWidth", "legend", "tooltip"},
}
"""Maps the type of a panel to its options."""
TRANSFORMATIONS = {
    "merge": set(),
    "organize": {"excludeByName", "renameByName"},
    "groupingToMatrix": {"columnField", "rowField", "valueField", "emptyValue"},
}
UNITS = {"short", "percentunit", "bytes", "s", "ms", "ops", "reqps"}
VARIABLE = {"name", "label", "type", "query", "refresh", "hide"}
SCHEMA_VERSION = 39
"""The version of the schema of Grafana 10.4, which later versions migrate."""
AGGREGATION = re.compile(
    r"^(?:(?:sort_desc|topk|histogram_quantile)\((?:[0-9.]+, )?|time\(\) - )*(?:sum|min|max|avg)\b"
)
LABELS = re.compile(r" by \(([a-z_, ]+)\)")
SUFFIXES = {"_bytes": "bytes", "_milliseconds": "ms", "_seconds": "s"}
"""Maps the end of the name of a metric to the unit of its values."""
QUERY_VARIABLE = VARIABLE | {"datasource", "definition", "sort", "multi", "includeAll", "allValue", "current"}


@pytest.fixture(params=DASHBOARDS, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Json:
    found: Json = json.loads(request.param.read_text(encoding="utf-8"))
    return found


def panels(dashboard: Json) -> list[Json]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard: Json) -> list[tuple[str, Json, Json]]:
    """Each query with its panel, and their names for messages."""
    return [
        (f"{panel['title']}/{target['refId']}", panel, target)
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def labels_of(query: str) -> set[str]:
    """The labels of the series that a query returns: the labels of its aggregation."""
    assert AGGREGATION.search(query), f"no aggregation, so new labels would make new series: {query}"
    found = [set(text.split(", ")) for text in LABELS.findall(query)]
    assert all(other == found[0] for other in found), query
    return (found[0] if found else set()) - ({"le"} if query.startswith("histogram_quantile") else set())


def columns_of(panel: Json) -> set[str]:
    """The names of the columns of a table before they are renamed."""
    labels = set().union(*(labels_of(target["expr"]) for target in panel["targets"]))
    letters = [target["refId"] for target in panel["targets"]]
    return labels | {"Time"} | ({"Value"} if len(letters) == 1 else {f"Value #{letter}" for letter in letters})


def test_a_dashboard_has_the_known_fields(dashboard: Json) -> None:
    assert dashboard.keys() == DASHBOARD
    assert dashboard["schemaVersion"] == SCHEMA_VERSION
    assert dashboard["tags"] == ["volcano-py"]
    assert dashboard["uid"].startswith("volcano-py-") and len(dashboard["uid"]) <= 40
    assert dashboard["time"].keys() == {"from", "to"}


def test_every_panel_has_the_known_fields_of_its_type(dashboard: Json) -> None:
    for panel in dashboard["panels"]:
        name = panel["title"]
        if panel["type"] == "row":
            assert panel.keys() == ROW and panel["panels"] == [], name
            continue
        assert panel.keys() - {"transformations"} == PANEL, name
        assert panel["description"].endswith("."), name
        assert panel["options"].keys() == OPTIONS[panel["type"]], name
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}, name
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults.keys() <= {"unit", "custom", "min", "max", "color", "thresholds"}, name
        assert defaults["unit"] in UNITS, name
        for override in panel["fieldConfig"]["overrides"]:
            assert override.keys() == {"matcher", "properties"}, name
            assert override["matcher"]["id"] == "byName", name
            (color,) = override["properties"]
            assert color["id"] == "color" and color["value"]["mode"] == "fixed", name
        steps = defaults.get("thresholds", {"steps": [{"value": None}]})["steps"]
        assert steps[0]["value"] is None, name
        assert [step["value"] for step in steps[1:]] == sorted(step["value"] for step in steps[1:]), name
        for step in panel.get("transformations", ()):
            assert step.keys() == {"id", "options"}, name
            assert step["options"].keys() == TRANSFORMATIONS[step["id"]], name


def test_ids_are_unique_and_panels_do_not_overlap(dashboard: Json) -> None:
    found = dashboard["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        at = panel["gridPos"]
        assert at.keys() == {"h", "w", "x", "y"}
        assert at["h"] > 0 and at["w"] > 0 and at["x"] >= 0 and at["x"] + at["w"] <= COLUMNS, panel["title"]
    for one, other in combinations(found, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, (one["title"], other["title"])


def test_every_query_uses_the_data_source_that_is_chosen_in_the_dashboard(dashboard: Json) -> None:
    first, *others = dashboard["templating"]["list"]
    assert first.keys() == VARIABLE
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    for variable in others:
        assert variable.keys() == QUERY_VARIABLE
        assert variable["datasource"] == DATA_SOURCE
        assert variable["query"] == {"query": variable["definition"], "refId": "variable"}
    for panel in panels(dashboard):
        assert panel["datasource"] == DATA_SOURCE
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)) and letters
        for target in panel["targets"]:
            assert target.keys() - {"legendFormat", "format", "instant"} == {"refId", "datasource", "expr"}
            assert target["datasource"] == DATA_SOURCE
            assert (target.get("format") == "table") == (panel["type"] == "table")


def test_every_variable_is_used_and_every_used_one_exists(dashboard: Json) -> None:
    queries = " ".join(target["expr"] for _, _, target in targets(dashboard))
    defined = {f"${variable['name']}" for variable in dashboard["templating"]["list"]} - {"$datasource"}
    assert set(re.findall(r"\$\w+", queries)) - {"$__rate_interval"} == defined
    texts = json.dumps(dashboard).replace("${datasource}", "")
    assert set(re.findall(r"\$\{?\w+", texts)) - {"$__rate_interval", "$__all"} == defined


def test_a_legend_consists_of_the_labels_that_its_query_returns(dashboard: Json) -> None:
    for name, panel, target in targets(dashboard):
        legend = target.get("legendFormat", "")
        if panel["type"] != "table":
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) == labels_of(target["expr"]), name
        assert legend or panel["type"] in ("table", "stat"), name
    for panel in panels(dashboard):
        legends = [target.get("legendFormat") for target in panel["targets"]]
        assert panel["type"] == "table" or len(set(legends)) == len(legends), panel["title"]


def test_transformations_name_columns_that_the_queries_return(dashboard: Json) -> None:
    for panel in panels(dashboard):
        steps = {step["id"]: step["options"] for step in panel.get("transformations", ())}
        name = panel["title"]
        assert ("merge" in steps) == (len(panel["targets"]) > 1 and panel["type"] == "table"), name
        if organize := steps.get("organize"):
            renamed = organize["renameByName"]
            assert renamed.keys() | organize["excludeByName"].keys() == columns_of(panel), name
            assert len(set(renamed.values())) == len(renamed), name
        if matrix := steps.get("groupingToMatrix"):
            fields = {matrix["rowField"], matrix["columnField"], matrix["valueField"], "Time"}
            assert fields == columns_of(panel), f"{name}: two values would fall into one cell"
        assert (panel["type"] == "table") == bool(steps), name


def test_overrides_name_series_of_the_panel(dashboard: Json) -> None:
    for panel in panels(dashboard):
        legends = {target.get("legendFormat", "") for target in panel["targets"]}
        for override in panel["fieldConfig"]["overrides"]:
            series = override["matcher"]["options"]
            assert series in legends or any("{{" in legend for legend in legends), (panel["title"], series)


def test_units_are_those_of_the_metrics(dashboard: Json) -> None:
    for name, panel, target in targets(dashboard):
        query = target["expr"]
        if query.startswith(("sum(rate(", "sum by")) and "rate(" in query:
            assert panel["fieldConfig"]["defaults"]["unit"] in ("ops", "reqps", "short"), name
            continue
        for metric in re.findall(r"\bvolcano_\w+", query):
            for suffix, unit in SUFFIXES.items():
                if metric.removesuffix("_bucket").endswith(suffix):
                    assert panel["fieldConfig"]["defaults"]["unit"] == unit, name


def test_quantiles_are_taken_of_the_buckets_of_all_processes(dashboard: Json) -> None:
    for name, _, target in targets(dashboard):
        if "histogram_quantile" in target["expr"]:
            by, metric = re.findall(r" by \(([a-z_, ]+)\) \(rate\((\w+)", target["expr"])[0]
            assert "le" in by.split(", ") and metric.endswith("_bucket"), name


def test_rows_span_the_page(dashboard: Json) -> None:
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            at = panel["gridPos"]
            assert (at["x"], at["w"], at["h"]) == (0, COLUMNS, 1), panel["title"]


def test_dashboards_have_different_names() -> None:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    assert [path.stem for path in DASHBOARDS] == ["chips", "health", "jobs", "queues"]
    assert len({document["uid"] for document in documents}) == len({each["title"] for each in documents}) == 4
