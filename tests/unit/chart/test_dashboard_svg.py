"""The images of dashboards."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.integration.dashboard_svg import Series, draw, legend, nice, number, table

DASHBOARDS = sorted((Path(__file__).resolve().parents[3] / "charts" / "volcano-py" / "dashboards").glob("*.json"))


def texts(document: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(document).iter() if each.tag.endswith("}text")]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_is_drawn_with_its_title_and_its_values(path: Path) -> None:
    dashboard: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    labels = dict.fromkeys(("queue_name", "resource", "state", "node", "role", "reason", "card", "workload"), "<a&b>")

    found = texts(draw(dashboard, lambda _: [Series(labels, [(0.0, 1.0), (10.0, 0.25)])], 0.0, 10.0))

    assert {panel["title"] for panel in dashboard["panels"]} <= set(found)
    assert any("<a&b>" in text for text in found)


def test_a_label_that_a_series_lacks_is_empty_in_its_name() -> None:
    assert legend("{{role}} {{shard}}", {"role": "scheduler"}) == "scheduler"


def test_a_dashboard_without_data_is_drawn() -> None:
    for path in DASHBOARDS:
        assert texts(draw(json.loads(path.read_text(encoding="utf-8")), lambda _: [], 0.0, 10.0))


def test_the_answers_of_several_queries_are_columns_of_one_table() -> None:
    panel = {
        "targets": [{"refId": "A"}, {"refId": "B"}],
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {"excludeByName": {}, "renameByName": {"queue": "Queue", "Value #A": "Used"}},
            },
        ],
    }
    a, b = [Series({"queue": name}, [(0.0, value)]) for name, value in (("x", 1.0), ("y", 2.0))]
    assert table(panel, [[a, b], [Series({"queue": "y"}, [(0.0, 5.0)])]]) == (
        ["Queue", "Used", "Value #B"],
        [{"Queue": "x", "Used": 1.0}, {"Queue": "y", "Used": 2.0, "Value #B": 5.0}],
    )


def test_a_label_becomes_the_columns_of_a_matrix() -> None:
    options = {"rowField": "node", "columnField": "state", "valueField": "Value", "emptyValue": "zero"}
    panel = {"targets": [{"refId": "A"}], "transformations": [{"id": "groupingToMatrix", "options": options}]}
    answer = [
        Series({"node": node, "state": state}, [(0.0, value)])
        for node, state, value in (("m", "free", 8.0), ("n", "unhealthy", 1.0))
    ]
    columns, rows = table(panel, [answer])
    assert columns == ["node\\state", "free", "unhealthy"]
    assert [list(row.values()) for row in rows] == [["m", 8.0, 0.0], ["n", 0.0, 1.0]]


def test_numbers_have_their_unit() -> None:
    assert [number(0.5, "percentunit"), number(3 * 2**30, "bytes"), number(5400, "s"), number(0.25, "ms")] == [
        "50 %",
        "3 GiB",
        "1.5 hours",
        "250 µs",
    ]
    assert [nice(17, "short"), nice(0.03, "s"), nice(3 * 2**30, "bytes")] == [20, 0.04, 4 * 2**30]
