"""The documented combinations of values of the chart: those of its folder `ci`, and those of commands in the docs."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from controlplane.manifests import CHART, NAMESPACE, RELEASE, ROOT

_COMMAND = re.compile(rf"^ *(?:\$ )?(helm (?:install|upgrade) {RELEASE} charts/volcano-py (?:.*\\\n)*.*)", re.MULTILINE)
_KEPT = ("--set", "--set-file", "--set-json", "--namespace")
_OTHERS = {"--create-namespace", "--wait", "--skip-crds", "--reuse-values", "--reset-then-reuse-values"}
_EXAMPLE_CONFIGURATION = ROOT / "examples" / "scheduler.conf"


def combinations() -> Mapping[str, Sequence[str]]:
    """The options of `helm template` for each combination, by its name."""
    return dict(of_files()) | dict(_of_documents())


def of_files() -> Sequence[tuple[str, Sequence[str]]]:
    """The name and the options of `helm template` for each file of the chart."""
    files = sorted((CHART / "ci").glob("*-values.yaml"))
    return [(path.stem.removesuffix("-values"), [f"--values={path}"]) for path in files]


def _of_documents() -> Iterator[tuple[str, Sequence[str]]]:
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        commands = _COMMAND.findall(document.read_text(encoding="utf-8"))
        for number, command in enumerate(commands, 1):
            yield f"{document.name}, command {number}", list(_options(shlex.split(command.replace("\\\n", " "))[4:]))


def _options(words: Sequence[str]) -> Iterator[str]:
    """The options of a command that matter for `helm template`. Raises ValueError for an unknown option."""
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in _KEPT:
            value = value or next(rest)
            key, _, file = value.partition("=")
            if name == "--set-file" and not (ROOT / file).exists():
                value = f"{key}={_EXAMPLE_CONFIGURATION}"  # the file of the reader
            elif name == "--set-file":
                value = f"{key}={ROOT / file}"
            yield f"{name}={value}"
        elif name not in _OTHERS:
            raise ValueError(f"unknown option {word} of helm in the documentation")


def namespace_of(options: Sequence[str]) -> str:
    return next((word.partition("=")[2] for word in options if word.startswith("--namespace=")), NAMESPACE)
