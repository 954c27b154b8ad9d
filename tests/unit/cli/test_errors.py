"""Errors are sentences: no command prints a Python object, whatever its arguments and the answers of the API server
are."""

import re
import socket
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.unit.cli.cluster import Cluster, write_kubeconfig
from tests.unit.cli.test_hostile_text import leaves
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal

PYTHON = re.compile(
    r"<[\w.]+( object)? at 0x|<class |<function |Path\(|\bNone\b|NoneType|Traceback|\[Errno|\bcodec\b|\b[bu]'|\{'|\[\('"
    r"|\w(Error|Exception)\(|\w+Error: |got (list|dict|str|int|float|bool|set)\b|\bfrozenset|mappingproxy|dict_keys"
    r"|Decoder|Struct\b|asyncio|object (of type|has no|is not)"
)
"""Texts that a Python program prints by mistake."""
ROLES = ("scheduler", "controllers", "webhooks", "playground")
"""The commands that run until they are stopped, and wait for an API server that does not answer."""
LOCAL = ("simulate", "replay", "completion", "version")
"""The commands that need no API server."""
ARGUMENTS = {
    "explain": ("job", "train"),
    "job run": ("-N", "train"),
    "queue operate": ("-n", "gold", "-a", "close"),
    "queue create": ("-n", "gold"),
}
NAMED = {"view", "logs", "suspend", "resume", "delete", "get", "describe"}
"""The verbs that need a name."""


ALL = sorted(leaves(main))
ASKING = [words for words in ALL if words[0] not in (*ROLES, *LOCAL)]


def options(words: tuple[str, ...]) -> list[click.Option]:
    command: Any = main
    for word in words:
        command = command.get_command(click.Context(command), word)
    return [each for each in command.params if isinstance(each, click.Option)]


def arguments(words: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The required arguments of a command. ``folder``: a directory for a file with an object to create."""
    if words[-1] == "create" and words[0] in ("jobflow", "jobtemplate"):
        kind = {"jobflow": "JobFlow", "jobtemplate": "JobTemplate"}[words[0]]
        object_ = f"apiVersion: flow.volcano.sh/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"
        (folder / "object.yaml").write_text(object_, encoding="utf-8")
        return ("-f", str(folder / "object.yaml"))
    return ARGUMENTS.get(" ".join(words), ("train",) if words[-1] in NAMED else ())


def invoke(*line: str) -> Result:
    return CliRunner().invoke(main, list(line), prog_name="volcano-py")


def is_plain(result: Result, *line: str) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
    found = PYTHON.search(result.output)
    assert found is None, f"{' '.join(line)}: {found[0]!r} in\n{result.output}"
    assert result.exit_code == 0 or result.stderr.strip(), f"{' '.join(line)} fails without a message"


def named(words: tuple[str, ...]) -> str:
    return " ".join(words)


@pytest.mark.parametrize("words", ALL, ids=named)
def test_wrong_arguments(words: tuple[str, ...]) -> None:
    lines = [("--no-such-flag",), ("-o", "none"), ("a", "b", "c", "d"), ("-n",), ("--", "--x")]
    lines += [
        (option.opts[-1], value)
        for option in options(words)
        if not option.is_flag and isinstance(option.type, (click.Choice, click.IntRange, click.types.IntParamType))
        for value in ("-5", "x", "")
    ]

    for line in lines:
        result = (
            invoke(*words, *line, "--kubeconfig", "/no/such/file") if words[0] not in LOCAL else invoke(*words, *line)
        )
        is_plain(result, *words, *line)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files with content that a command cannot read."""
    core, batch = b"apiVersion: v1\n", b"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
    contents = {
        "binary": b"\xff\xfe\x00\x01",
        "list": b"- 1\n- 2\n",
        "text": b"hello",
        "broken": b"a: [1\nb: {",
        "tag": b"!!python/object:os.system {}\n",
        "types": b"apiVersion: 1\nkind: {a: b}\nmetadata: [null]\n",
        "kind": core + b"kind: {a: [b]}\nmetadata: {name: p}\n",
        "key": core + b"kind: Pod\nmetadata: {name: p, labels: {null: a, [1, 2]: b}}\n",
        "null-key": core + b"kind: Pod\nmetadata: {name: p, labels: {null: a}}\n",
        "date": core + b"kind: Pod\nmetadata: {name: 2001-01-01, namespace: !!set {a, b}}\n",
        "job": batch + b"metadata: {name: [1]}\nspec: {tasks: 7}\n",
        "tasks": batch + b"metadata: {name: a}\nspec: {tasks: [{a: {}}]}\n",
        "namespace": core + b"kind: Pod\nmetadata: {name: p, namespace: {}}\nspec: {containers: null}\n",
        "containers": core + b"kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: {}, resources: 7}]}\n",
        "quantity": core + b"kind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: [4], memory: {}}}\n",
        "what-if": core + b"kind: Node\nmetadata: {name: n, annotations: {volcano-py/what-if: {a: 1}}}\n",
        "group": b"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: 7",
        "kubeconfig": core + b"kind: Config\ncurrent-context: c\ncontexts: 7\nusers: null\n",
        "contexts": core
        + b"kind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: {}, user: 3}}]\n",
        "actions": b"actions: 7\ntiers: {a: null}\n",
        "plugin": b"actions: allocate\ntiers: [{plugins: [{name: {a: b}}]}]\n",
        "flag": b"actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: {}}]}]\n",
        "arguments": b"actions: allocate\ntiers: [{plugins: [{name: usage, arguments: {thresholds: [1]}}, "
        b"{name: extender, arguments: {extender.managedResources: {a: 1}, extender.urlPrefix: [null]}}]}]\n",
        "metrics": b"actions: allocate\ntiers: []\nconfigurations: [{name: allocate}]\nmetrics: {type: []}\n",
        "empty": b"",
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.yaml").write_bytes(content)
    return [str(tmp_path), str(tmp_path / "missing"), *(str(tmp_path / f"{name}.yaml") for name in contents)]


@pytest.mark.slow
@pytest.mark.parametrize("words", ALL, ids=named)
def test_files_that_cannot_be_read(words: tuple[str, ...], files: list[str], tmp_path: Path) -> None:
    for option in options(words):
        if option.metavar != "FILE" and not isinstance(option.type, click.Path) and option.name != "plugins_dirs":
            continue
        for file in files:
            others = ("-f", files[-1]) if words == ("simulate",) and option.name != "paths" else ()
            line = (*words, *arguments(words, tmp_path), option.opts[-1], file, *others)
            is_plain(invoke(*line), *line)


@pytest.fixture
def refused(tmp_path: Path) -> str:
    """A kubeconfig for an address on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    write_kubeconfig(tmp_path / "refused", f"http://127.0.0.1:{port}")
    return str(tmp_path / "refused")


@pytest.mark.parametrize("words", ASKING, ids=named)
def test_a_refused_connection(words: tuple[str, ...], refused: str, tmp_path: Path) -> None:
    line = (*words, *arguments(words, tmp_path), "-k", refused)
    result = invoke(*line)

    is_plain(result, *line)
    assert "no answer from the API server at http://127.0.0.1" in result.stderr or result.exit_code == 2, result.output


ANSWERS = {
    "403": lambda: refusal(403, "Forbidden", 'things is forbidden: User "eve" cannot list'),
    "404 without a status": lambda: web.Response(status=404, text="404 page not found"),
    "500": lambda: refusal(500, "InternalError", "etcdserver: leader changed"),
    "500 with a page": lambda: web.Response(status=500, text="<html>proxy</html>", content_type="text/html"),
    "no JSON": lambda: web.Response(text='{"items": [', content_type="application/json"),
    "a list": lambda: web.Response(text="[1, null]", content_type="application/json"),
    "null": lambda: web.Response(text="null", content_type="application/json"),
    "wrong types": lambda: web.Response(
        text='{"metadata": {"name": "train"}, "spec": 7, "status": null, "items": [{"metadata": null}, {"spec": []}]}',
        content_type="application/json",
    ),
    "items of no type": lambda: web.Response(text='{"items": [7, "x", null]}', content_type="application/json"),
    "binary": lambda: web.Response(body=b"\xff\xfe\x00", content_type="application/json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", ASKING, ids=named)
def test_refusals_and_malformed_answers(words: tuple[str, ...], cluster: Cluster, tmp_path: Path) -> None:
    for name, made in ANSWERS.items():

        async def answer(call: Call, request: object, made: Any = made) -> Answer:
            response: Answer = made()
            return response

        for method in ("GET", "POST", "PATCH", "DELETE"):
            cluster.api.on(method, ".*", answer)
        line = (*words, *arguments(words, tmp_path), "-k", str(cluster.kubeconfig))
        result = invoke(*line)

        is_plain(result, name, *line)


def test_a_port_that_is_taken_is_named_with_its_address(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = (
            "controllers",
            "--kubeconfig",
            str(cluster.kubeconfig),
            "--leader-elect=false",
            "--healthz-address",
            f"127.0.0.1:{port}",
        )
        result = invoke(*line, "--listen-address", "127.0.0.1:0")

    is_plain(result, *line)
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in result.stderr
