"""simulate calls the programs that the configuration names, and continues without programs that do not answer."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.builders import Raw, group, node, pods
from tests.unit.cluster.servers import serving_in_thread

LOADS = {"n1": "70", "n2": "10"}


def simulated(tmp_path: Path, conf: Raw, *objects: Any) -> Result:
    (tmp_path / "scheduler.conf").write_text(json.dumps(conf))
    (tmp_path / "input.yaml").write_text(yaml.safe_dump_all(objects))
    arguments = ["-f", str(tmp_path / "input.yaml"), "--scheduler-conf", str(tmp_path / "scheduler.conf"), "-o", "json"]
    return CliRunner().invoke(main, ["simulate", *arguments])


def placed(result: Result) -> dict[str, str | None]:
    assert result.exit_code == 0, result.output
    items = json.loads(result.stdout)["items"]
    return {o["metadata"]["name"]: o["spec"].get("nodeName") for o in items if o["kind"] == "Pod"}


def conf(*plugins: Any, **rest: Any) -> Raw:
    return {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": [{"name": "gang"}, *plugins]}], **rest}


async def prometheus(request: web.Request) -> web.StreamResponse:
    result = [{"metric": {"instance": name}, "value": [1.0, load]} for name, load in LOADS.items()]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_the_load_of_nodes_is_read_from_prometheus(tmp_path: Path) -> None:
    with serving_in_thread(prometheus) as address:
        settings = conf({"name": "usage"}, metrics={"type": "prometheus", "address": address})
        result = simulated(tmp_path, settings, node("n1"), node("n2"), group("g"), *pods("g", 1, "1c", "g"))
    assert placed(result) == {"g-0": "n2"} and result.stderr == ""


@pytest.mark.parametrize("type_", ["prometheus", "prometheus_adaptor"])
def test_without_an_answer_there_is_a_warning_and_the_simulation_goes_on(tmp_path: Path, type_: str) -> None:
    settings = conf({"name": "usage"}, metrics={"type": type_, "address": "http://127.0.0.1:1"})
    result = simulated(tmp_path, settings, node("n1"), group("g"), *pods("g", 1, "1c", "g"))
    assert placed(result) == {"g-0": "n1"}
    assert result.stderr.startswith("warning: the load of nodes is not known: ")


def test_an_extender_is_called(tmp_path: Path) -> None:
    async def extender(request: web.Request) -> web.StreamResponse:
        question = await request.json()
        return web.json_response({"status": "no"} if question["node"]["Name"] == "n1" else {})

    with serving_in_thread(extender) as address:
        arguments = {"extender.urlPrefix": address, "extender.predicateVerb": "predicate"}
        settings = conf({"name": "extender", "arguments": arguments})
        result = simulated(tmp_path, settings, node("n1"), node("n2"), group("g"), *pods("g", 1, "1c", "g"))
    assert placed(result) == {"g-0": "n2"}


def test_an_unreachable_extender_causes_a_warning(tmp_path: Path) -> None:
    arguments = {"extender.urlPrefix": "http://127.0.0.1:1", "extender.predicateVerb": "predicate"}
    settings = conf({"name": "extender", "arguments": arguments})
    result = simulated(tmp_path, settings, node("n1"), group("g"), *pods("g", 1, "1c", "g"))
    assert placed(result) == {"g-0": None}
    assert "plugin extender: extender http://127.0.0.1:1/predicate: " in result.stderr
