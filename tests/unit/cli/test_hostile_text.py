"""Text of other users never controls the terminal: every command runs on hostile objects, errors and files."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.printable import is_printable
from scheduler.cli import text
from scheduler.cli.completion import kubectl_complete_vc
from scheduler.cli.main import main
from scheduler.cli.output import print_object
from tests.builders import group, node, pod, queue
from tests.unit.cli.cluster import JOBS, Cluster, job, pod_group
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.record.test_recording import Recorded

pytestmark = pytest.mark.slow

Raw = dict[str, Any]
HOSTILE = (
    "\x1b[38;5;196m\x1b]0;owned\x07\x1b[2J\x9b31m\x90q\x9c\x7f\x00\x08\r\n"
    "\u202e\u2066\u200e\u200f\u061c\u2028\u2029\u200b\u200d\ufeff\u2060\u3164\U000e0041[red]:skull:[/red]\\"
)
OURS = re.compile(r"\x1b\[(0|1|3[1-6]|9[4-6])(;1)?m")
"""The codes of our own colours, of which there are none in HOSTILE."""


def raw_characters(output: str) -> list[str]:
    return [c for c in OURS.sub("", output) if c != "\n" and not is_printable(c)]


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all commands that are no groups."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


LISTS = [[], ["-o", "wide"], ["-o", "json"], ["-o", "yaml"], ["-o", "name"]]
LIVE: dict[tuple[str, ...], list[list[str]]] = {
    ("explain",): [["job", "train", *more] for more in ([], ["-o", "json"], ["-o", "yaml"])]
    + [["pod", "train-worker-0"], ["podgroup", "train"], ["pod", "no-such-pod"]],
    ("job", "delete"): [["train"]],
    ("job", "list"): LISTS,
    ("job", "logs"): [["train"], ["train", "--follow"]],
    ("job", "resume"): [["train"]],
    ("job", "run"): [["-f", "FILE"], ["-N", "train"]],
    ("job", "suspend"): [["train"]],
    ("job", "top"): [["--no-watch"], ["--no-watch", "-A"]],
    ("job", "view"): [
        [name, *more] for name in ("train", "ascend") for more in ([], ["-o", "json"], ["-o", "yaml"], ["-o", "name"])
    ],
    ("jobflow", "create"): [["-f", "FLOWS"]],
    ("jobflow", "delete"): [["flow"], ["-f", "FLOWS"]],
    ("jobflow", "describe"): [["flow"], [], ["-o", "json"]],
    ("jobflow", "get"): [["flow", *more] for more in LISTS],
    ("jobflow", "list"): LISTS,
    ("jobtemplate", "create"): [["-f", "TEMPLATES"]],
    ("jobtemplate", "delete"): [["template"], ["-f", "TEMPLATES"]],
    ("jobtemplate", "describe"): [["template"], [], ["-o", "json"]],
    ("jobtemplate", "get"): [["template", *more] for more in LISTS],
    ("jobtemplate", "list"): LISTS,
    ("node", "chips"): [[*which, *form] for which in ([], ["n1"]) for form in LISTS[:4]],
    ("playground", "clean"): [[]],
    ("playground", "fail"): [["n1", "--chip", "3"]],
    ("playground", "recover"): [["n1"]],
    ("pod", "list"): LISTS,
    ("podgroup", "list"): LISTS,
    ("queue", "create"): [["-n", "q"]],
    ("queue", "delete"): [["q"]],
    ("queue", "get"): [["q", *more] for more in LISTS],
    ("queue", "list"): LISTS,
    ("queue", "operate"): [["q", "-a", "open"], ["q", "-a", "close"], ["q", "-a", "update", "-w", "3"]],
    ("queue", "top"): [[], ["q"], ["-o", "json"], ["-o", "yaml"]],
}
"""The commands against an API server."""
LOCAL: dict[tuple[str, ...], list[list[str]]] = {
    ("can-run",): [
        ["-f", "CLUSTER", "--cluster-from", "CLUSTER", *more]
        for more in ([], ["-o", "json"], ["-o", "yaml"], ["--scheduler-conf", "BROKEN"])
    ],
    ("completion",): [["bash"], ["zsh"], ["fish"]],
    ("controllers",): [["--kubeconfig", "BROKEN", "--leader-elect=false"]],
    ("explain",): [
        [*what, "-f", "CLUSTER", *more]
        for what in (["pod", f"p{HOSTILE}"], ["podgroup", "g"], ["pod", "no-such-pod"])
        for more in ([], ["-o", "json"], ["-o", "yaml"], ["--scheduler-conf", "BROKEN"])
    ],
    ("node", "chips"): [["-f", "CHIPS", *form] for form in LISTS[:4]],
    ("playground", "device-plugin"): [["--node", "n1", "--kubelet-dir", "BROKEN"]],
    ("playground", "families"): [[]],
    ("playground", "nodes"): [[]],
    ("replay",): [["BROKEN"]],
    ("scheduler",): [["--scheduler-conf", "BROKEN"], ["--kubeconfig", "BROKEN", "--leader-elect=false"]],
    ("simulate",): [
        ["-f", "CLUSTER", *more, *output]
        for more in ([], ["--what-if", "CHANGE"], ["--scheduler-conf", "BROKEN"], ["-f", "BROKEN"])
        for output in ([], ["-o", "json"], ["-o", "yaml"])
    ]
    + [["--chips", "-f", "CHIPS", *output] for output in ([], ["-o", "json"], ["-o", "yaml"])],
    ("version",): [[], ["-o", "json"], ["-o", "yaml"]],
    ("webhooks",): [["--webhook-service-name", "s", "--admission-conf", "BROKEN"]],
}
"""The commands on files."""


def test_every_command_is_covered() -> None:
    assert {*LIVE, *LOCAL} == set(leaves(main)), "a new command has to be run here against what is hostile"


# --- what is hostile --------------------------------------------------------------------------------------------------
def with_controls(value: Any, *, keep: frozenset[str] = frozenset()) -> Any:
    """The same with something hostile behind every text, but for some fields."""
    if isinstance(value, dict):
        return {key: each if key in keep else with_controls(each, keep=keep) for key, each in value.items()}
    if isinstance(value, list):
        return [with_controls(each, keep=keep) for each in value]
    return value + HOSTILE if isinstance(value, str) else value


KEPT = frozenset({"apiVersion", "creationTimestamp", "cpu", "kind", "memory", "name", "namespace", "phase", "uid"})
EVENT = {"type": "Warning", "reason": "Failed", "message": "because", "source": {"component": "kubelet"}}
CONDITION = {"type": "Running", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "t"}
OBJECTS: dict[str, Raw] = {
    "ascendjobs": acjob({"Master": role()}, run_policy={"schedulingPolicy": {"queue": "q", "priorityClass": "p"}})
    | {"status": {"conditions": [CONDITION], "replicaStatuses": {"Master": {"active": 1}}}},
    "jobs": job("train", status={"state": {"phase": "Pending", "reason": "r", "message": "m"}, "conditions": []}),
    "podgroups": pod_group("train", owner="train", why="too big"),
    "queues": {"metadata": {"name": "q"}, "spec": {"weight": 1, "parent": "p"}, "status": {"state": "Open"}},
    "pods": {
        "metadata": {
            "name": "train-worker-0",
            "namespace": "default",
            "labels": {"volcano.sh/job-name": "train", "volcano.sh/queue-name": "q"},
            "annotations": {"scheduling.k8s.io/group-name": "train"},
        },
        "spec": {"schedulerName": "volcano-py", "containers": [{"name": "main", "image": "i", "command": ["c"]}]},
        "status": {
            "phase": "Pending",
            "reason": "r",
            "conditions": [{"type": "Ready", "status": "False", "message": "m"}],
        },
    },
    "nodes": node("n1", "4c"),
    "events": EVENT,
    "jobflows": {
        "metadata": {"name": "flow", "namespace": "default"},
        "status": {"state": {"phase": "Running", "message": "waits"}},
    },
    "jobtemplates": {"metadata": {"name": "template", "namespace": "default"}, "spec": {"queue": "q"}},
}


def hostile_objects(cluster: Cluster, keep: frozenset[str]) -> None:
    """Answers every request with objects full of hostile text."""

    async def answer(call: Call, request: web.Request) -> Answer:
        parts = call.path.split("/")
        if call.path.endswith("/jobs/ascend"):
            return refusal(404, "NotFound", HOSTILE)  # it is an AscendJob
        if call.path.endswith("/log"):
            return web.Response(text=f"line {HOSTILE}\nanother\n")
        if call.method == "POST":
            made: Raw = with_controls({"metadata": {"name": "made", **call.body["metadata"]}})
            return made
        plural = parts[-1] if parts[-1] in OBJECTS else parts[-2]
        found = with_controls(OBJECTS.get(plural, {}), keep=keep)
        if parts[-1] in OBJECTS or parts[-2] not in OBJECTS:
            return {"metadata": {"resourceVersion": "7"}, "items": [found] if found else []}
        return {"apiVersion": "v1", "kind": "x", **found}

    cluster.api.on(".*", ".*", answer)
    for method in ("GET", "POST", "PATCH", "DELETE"):
        cluster.api.on(method, ".*", answer)


def hostile_errors(cluster: Cluster) -> None:
    async def answer(call: Call, request: web.Request) -> Answer:
        return refusal(400, f"Bad{HOSTILE}", f"no: {HOSTILE}")

    for method in ("GET", "POST", "PATCH", "DELETE"):
        cluster.api.on(method, ".*", answer)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Maps placeholders in a command line to paths."""
    folder = tmp_path_factory.mktemp("files")
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "metadata": {"name": "f", "annotations": {"a": HOSTILE}}}
    pods = [with_controls(pod(f"p{i}", "9c", "g"), keep=KEPT - {"name"}) for i in range(2)]
    there = [node(f"n{HOSTILE}", "4c"), queue(f"q{HOSTILE}"), group("g", f"q{HOSTILE}", 2), group(f"h{HOSTILE}", "q")]
    small = with_controls(pod("small", "1c", "h"), keep=KEPT - {"name"})
    for each in (*pods, small):
        each["metadata"].pop("uid", None)
        each["spec"]["schedulerName"] = "volcano-py"
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    small["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = f"h{HOSTILE}"
    pods[0]["metadata"]["name"] = f"p{HOSTILE}"
    contents: dict[str, list[Any]] = {
        "FILE": [job("train")],
        "FLOWS": [{**flow, "kind": "JobFlow"}],
        "TEMPLATES": [{**flow, "kind": "JobTemplate"}],
        "CLUSTER": [*there, *pods, small],
        "CHIPS": [
            node(f"n{HOSTILE}", "4c+huawei.com/Ascend910=8"),
            pod(f"p{HOSTILE}", "1c+huawei.com/Ascend910=1", on=f"n{HOSTILE}"),
        ],
        "CHANGE": [node(f"m{HOSTILE}", "64c")],
        "BROKEN": [{"kind": HOSTILE, HOSTILE: [HOSTILE], "actions": HOSTILE, "resourceGroups": HOSTILE}],
    }
    paths = {}
    for name, documents in contents.items():
        path = folder / f"{name}\x1b[31m.yaml"
        path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
        paths[name] = str(path)
    return paths


def run(path: tuple[str, ...], arguments: list[str], files: dict[str, str], cluster: Cluster | None) -> Result:
    line = [*path, *(files.get(argument, argument) for argument in arguments)]
    line += ["--kubeconfig", str(cluster.kubeconfig)] if cluster is not None else []
    before = sys.getrecursionlimit()
    try:
        result = CliRunner().invoke(main, line, prog_name="volcano-py")
    finally:
        sys.setrecursionlimit(before)  # the scheduler raises it
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
    return result


@pytest.fixture(params=[False, True], ids=["a-pipe", "a-terminal"])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether standard output is taken for a terminal."""
    monkeypatch.setattr(text, "on_terminal", lambda: request.param)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return bool(request.param)


@pytest.mark.parametrize("path", LIVE, ids=" ".join)
@pytest.mark.parametrize("answers", ["objects", "hostile-names", "errors"])
def test_no_object_or_error_of_a_cluster_controls_the_terminal(
    path: tuple[str, ...], answers: str, terminal: bool, files: dict[str, str], cluster: Cluster
) -> None:
    if answers == "errors":
        hostile_errors(cluster)
    else:
        hostile_objects(cluster, KEPT if answers == "objects" else frozenset())
    shown = 0
    for arguments in LIVE[path]:
        result = run(path, arguments, files, cluster)
        if path != ("job", "logs") or terminal or answers == "errors":  # into a pipe go logs as they are
            assert not raw_characters(result.stdout), (arguments, result.stdout)
        assert not raw_characters(result.stderr), (arguments, result.stderr)
        assert "\N{SKULL}" not in result.output
        shown += ":skull:" in result.output
    assert shown or answers != "errors", "nothing hostile was shown: this test tests nothing"


@pytest.mark.parametrize("path", LOCAL, ids=" ".join)
def test_no_file_controls_the_terminal(path: tuple[str, ...], terminal: bool, files: dict[str, str]) -> None:
    for arguments in LOCAL[path]:
        result = run(path, arguments, files, None)
        allowed = "\t" if path == ("completion",) else ""
        assert not [c for c in raw_characters(result.stdout) if c not in allowed], (arguments, result.stdout)
        assert not raw_characters(result.stderr), (arguments, result.stderr)
        assert "\N{SKULL}" not in result.output
        ok = (
            path in (("completion",), ("playground", "families"), ("playground", "nodes"), ("version",))
            or "no-such-pod" in arguments
        )
        assert ok or any(code in result.output for code in (r"\x1b", r"\u001b", r"\e")), "nothing hostile was shown"


def test_no_recording_controls_the_terminal(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    asked = [node(f"n{HOSTILE}", "4c"), queue("q"), group("g", "q", 2), pod(f"p{HOSTILE}", "1c", "g")]
    Recorded(tmp_path / f"records{HOSTILE[:20]}", asked).run()

    def fail(self: object, session: object) -> None:
        raise ValueError(HOSTILE)

    for failure, word in ((lambda *_: None, "differs"), (fail, "fails")):
        monkeypatch.setattr("scheduler.plugins.gang.Gang.open", failure)
        for output in ([], ["-o", "json"], ["-o", "yaml"]):
            result = run(("replay",), [str(tmp_path / f"records{HOSTILE[:20]}"), *output], files, None)
            assert not raw_characters(result.output), result.output
            assert output or word in result.stdout


def test_names_that_a_shell_would_interpret_are_not_completed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["train", f"tr{HOSTILE}", "tr$(reboot)", "tr;x", "tr x"]
    found = [job(name) for name in names]
    cluster.api.answer("GET", JOBS, {"metadata": {"resourceVersion": "7"}, "items": found})
    line = ["kubectl_complete-vc", "job", "view", "--kubeconfig", str(cluster.kubeconfig), "tr"]
    monkeypatch.setattr("sys.argv", line)
    kubectl_complete_vc()
    assert capsys.readouterr().out == "train\n:4\n"


@given(st.text() | st.text(alphabet=sorted(set(HOSTILE)) + list("ab: #-'\"\t")))
def test_documents_are_escaped_without_loss(value: str) -> None:
    value = value.encode("utf-8", "ignore").decode()
    item = {"metadata": {"annotations": {value: value}}, "list": [value, {"a": value}]}

    @click.command()
    @click.argument("form")
    def command(form: str) -> None:
        print_object(item, form)

    as_json = CliRunner().invoke(command, ["json"]).stdout
    as_yaml = CliRunner().invoke(command, ["yaml"]).stdout
    assert json.loads(as_json) == item
    assert yaml.safe_load(as_yaml) == item
    assert not [c for c in raw_characters(as_json + as_yaml) if c != "\t"]


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    item: Any = {}
    for _ in range(100_000):
        item = {"a": item}

    @click.command()
    @click.argument("form")
    def command(form: str) -> None:
        print_object(item, form)

    for form in ("json", "yaml"):
        result = CliRunner().invoke(command, [form])
        assert (result.exit_code, "nested too deeply" in result.stderr) == (1, True)


def test_commands_print_with_one_function() -> None:
    writing = re.compile(r"click\.(s?echo|style)\(|(?<!\.)print\(|sys\.std(out|err)\b(?!\.isatty)|\bConsole\(|\bText\(")
    root = Path(text.__file__).parent
    found = {
        str(file.relative_to(root)) for file in root.rglob("*.py") if writing.search(file.read_text(encoding="utf-8"))
    }
    assert found == {"completion.py", "text.py"}, "text.echo escapes what others wrote"


@pytest.mark.parametrize("depth", [400, 20_000])
def test_a_deeply_nested_object_of_a_cluster_causes_an_error(depth: int, cluster: Cluster) -> None:
    text = (
        '{"items": [{"metadata": {"name": "train"}, "spec": {"x": ' + '{"x": ' * depth + "1" + "}" * (depth + 2) + "]}"
    )

    async def answer(call: Call, request: web.Request) -> Answer:
        return web.Response(text=text, content_type="application/json")

    cluster.api.on("GET", ".*", answer)
    for line in (["explain", "job", "train"], ["job", "view", "train", "-o", "yaml"], ["queue", "list"]):
        result = cluster.run(*line)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in (0, 1) and (result.exit_code == 0 or "Failed to" in result.stderr)


@pytest.mark.parametrize("path", [path for path in LIVE if path[-1] == "list"])
def test_every_list_finds_an_object(path: tuple[str, ...], cluster: Cluster) -> None:
    hostile_objects(cluster, KEPT)
    assert len(cluster.prints(*path).splitlines()) > 1, "the kind of a new list needs an object in OBJECTS"
