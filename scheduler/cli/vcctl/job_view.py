"""The output of ``vcctl job view``: the fields of a vcjob, with a tab before each value, and its Events."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.cli.connection import Raw
from scheduler.cli.output import mapping_in
from scheduler.cli.text import age, local_time

_FOR_HTML: Final = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})
_ANNOTATIONS: Final = {
    "Cri . Cci . Io / Container - Type": "cri.cci.io/container-type",
    "Kubernetes . Io / Availablezone": "kubernetes.io/availablezone",
    "Network . Alpha . Kubernetes . Io / Network": "network.alpha.kubernetes.io/network",
}
_COUNTS: Final = {
    "Succeeded": "succeeded", "Pending": "pending", "Running": "running", "Failed": "failed",
    "Terminating": "terminating", "Unknown": "unknown", "RetryCount": "retryCount", "Min Available": "minAvailable",
    "Version": "version",
}  # fmt: skip
"""Fields of the status that are shown unless they are 0."""
_NO_TIME: Final = "0001-01-01 00:00:00 +0000 UTC"
_EVENT: Final = "{:<15}\t{:<40}\t{:<30}\t{:<40}\t{}"


def job_lines(job: Raw, *, conditions: bool) -> Iterator[str]:
    """The lines of a vcjob. ``conditions``: whether to show the phases that it has had."""
    metadata, spec = mapping_in(job, "metadata"), mapping_in(job, "spec")
    yield from _fields(
        0,
        {
            "Name": _text(metadata, "name"),
            "Namespace": _text(metadata, "namespace"),
            "Labels": _json(mapping_in(metadata, "labels")),
            "Annotations": _json(mapping_in(metadata, "annotations")),
            "API Version": "",
            "Kind": "",
        },
    )
    yield "Metadata:"
    yield from _fields(
        1,
        {
            "Creation Timestamp": _time(metadata, "creationTimestamp"),
            "Generate Name": _text(metadata, "generateName"),
            "Generation": _number(metadata, "generation"),
            "Resource Version": _text(metadata, "resourceVersion"),
            "UID": _text(metadata, "uid"),
        },
    )
    yield "Spec:"
    yield from _fields(1, {"Min Available": _number(spec, "minAvailable")}, width=19)
    yield "  Plugins:"
    for plugin in ("env", "ssh"):
        yield from _fields(2, {plugin.capitalize(): _words(mapping_in(spec, "plugins"), plugin)})
    yield from _fields(1, {"Scheduler Name": _text(spec, "schedulerName")}, width=19)
    yield "  Tasks:"
    for task in _objects(spec, "tasks"):
        yield from _task(task)
    status = mapping_in(job, "status")
    yield from _status(status)
    if conditions:
        yield from _conditions(_objects(status, "conditions"))


def _task(task: Raw) -> Iterator[str]:
    template = mapping_in(task, "template")
    metadata, pod = mapping_in(template, "metadata"), mapping_in(template, "spec")
    annotations = mapping_in(metadata, "annotations")
    yield from _fields(2, {"Name": _text(task, "name")})
    yield from _fields(2, {"Replicas": _number(task, "replicas")})
    yield from _headings((2, "Template"), (3, "Metadata"), (4, "Annotations"))
    yield from _fields(5, {label: _text(annotations, key) for label, key in _ANNOTATIONS.items()})
    yield from _fields(4, {"Creation Timestamp": _time(metadata, "creationTimestamp")})
    yield from _headings((3, "Spec"), (4, "Containers"))
    for container in _objects(pod, "containers"):
        yield from _container(container)
    yield from _headings((4, "Image Pull Secrets"))
    for secret in _objects(pod, "imagePullSecrets"):
        yield from _fields(5, {"Name": _text(secret, "name")}, width=10)
    yield from _fields(4, {"Restart Policy": _text(pod, "restartPolicy")}, width=18)


def _container(container: Raw) -> Iterator[str]:
    yield from _headings((5, "Command"))
    command = container.get("command")
    for word in command if isinstance(command, list) else ():
        yield f"{'  ' * 6}{word}"
    yield from _fields(5, {"Image": _text(container, "image"), "Name": _text(container, "name")})
    yield from _headings((5, "Ports"))
    for port in _objects(container, "ports"):
        yield from _fields(6, {"Container Port": _number(port, "containerPort"), "Name": _text(port, "name")})
    yield from _headings((5, "Resources"))
    for which in ("limits", "requests"):
        amounts = mapping_in(mapping_in(container, "resources"), which)
        yield from _headings((6, which.capitalize()))
        yield from _fields(7, {name.capitalize(): _amount(amounts, name) for name in ("cpu", "memory")})
    yield from _fields(6, {"Working Dir": _text(container, "workingDir")})


def _status(status: Raw) -> Iterator[str]:
    yield "Status:"
    counts = {label: _number(status, key) for label, key in _COUNTS.items()}
    yield from _fields(1, {label: count for label, count in counts.items() if count > 0}, width=14)
    yield "  State:"
    yield from _fields(2, {"Phase": _text(mapping_in(status, "state"), "phase")})
    controlled = mapping_in(status, "controlledResources")
    if controlled:
        yield "  Controlled Resources:"
        for key in sorted(controlled):
            yield f"    {key}: \t{controlled[key]}"


def _conditions(conditions: Sequence[Raw]) -> Iterator[str]:
    if conditions:
        yield from ("  Conditions:", "    Status\tTransitionTime")
        for each in conditions:
            when = _time(each, "lastTransitionTime") if each.get("lastTransitionTime") else "<nil>"
            yield f"    {_text(each, 'status')} \t{when} "


def event_lines(events: Sequence[Raw], now: float | None = None) -> Iterator[str]:
    """The lines of Events. ``now``: seconds since the epoch; by default the clock's."""
    if not events:
        yield "Events: \t<none>"
        return
    yield from ("Events:", _EVENT.format("Type", "Reason", "Age", "Form", "Message"), _EVENT.format(*["-------"] * 5))
    for event in events:
        source = mapping_in(event, "source")
        sources = (_text(source, "component"), _text(source, "host"))
        yield _EVENT.format(
            _text(event, "type"),
            _text(event, "reason"),
            _when(event, time.time() if now is None else now),
            ", ".join(sources if sources[1] else sources[:1]),
            _text(event, "message").strip(),
        )


def _when(event: Raw, now: float) -> str:
    first = age(_text(event, "firstTimestamp"), now)
    count = _number(event, "count")
    return f"{age(_text(event, 'lastTimestamp'), now)} (x{count} over {first})" if count > 1 else first


# --- the values, which may have any type ---
def _fields(depth: int, fields: dict[str, object], *, width: int = 0) -> Iterator[str]:
    """One line for each field. ``width``: of the labels; 0 for that of the longest."""
    width = width or max((len(label) + 1 for label in fields), default=0)
    for label, value in fields.items():
        yield f"{'  ' * depth}{label + ':':<{width}}\t{value}"


def _headings(*headings: tuple[int, str]) -> Iterator[str]:
    yield from (f"{'  ' * depth}{text}:" for depth, text in headings)


def _text(item: Raw, key: str) -> str:
    value = item.get(key)
    return "" if value is None else str(value)


def _number(item: Raw, key: str) -> int:
    value = item.get(key)
    return value if isinstance(value, int) else 0


def _objects(item: Raw, key: str) -> list[Raw]:
    value = item.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _words(item: Raw, key: str) -> str:
    """A list of words in Go's notation."""
    value = item.get(key)
    return f"[{' '.join(map(str, value)) if isinstance(value, list) else ''}]"


def _json(labels: Raw) -> str:
    """Labels in Go's JSON: sorted, and with codes for the characters of HTML."""
    if not labels:
        return "<none>"
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":"), sort_keys=True).translate(_FOR_HTML)


def _time(item: Raw, key: str) -> str:
    """A time in Go's notation and the local time zone."""
    return local_time(_text(item, key), "%Y-%m-%d %H:%M:%S %z %Z") or _NO_TIME


def _amount(amounts: Raw, name: str) -> str:
    """A quantity as Kubernetes writes it: ``1000m`` is ``1``."""
    text = _text(amounts, name) or "0"
    try:
        return str(parse_amount(text))
    except QuantityError:
        return text
