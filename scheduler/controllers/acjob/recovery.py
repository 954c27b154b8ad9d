"""The environment variables by which PyTorch and MindSpore recover from faults of processes, as the Ascend operator
sets them: annotation ``recover-strategy``, labels ``pod-rescheduling`` and ``subHealthyStrategy``."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.api.acjob import AscendJob
from scheduler.api.acjob_roles import MINDSPORE, PYTORCH
from scheduler.api.names import POD_RESCHEDULING, RECOVER_STRATEGY, SUB_HEALTHY_STRATEGY

_ON: Final = "on"
_HOT_SWITCH: Final = "hotSwitch"
_AVAILABILITY: Final = "HIGH_AVAILABILITY"
"""PyTorch: words, separated by commas."""
_TFT: Final = "MS_ENABLE_TFT"
"""MindSpore: words, separated by commas, in braces."""
_RESCHEDULING: Final = "RSC:1"
_RECOVERY: Final = {"PROCESS_RECOVER": _ON, "ELASTIC_PROCESS_RECOVER_ENABLE": "1"}
_MINDIO: Final = {"MINDIO_FOR_MINDSPORE": "1"}


class _Strategy(NamedTuple):
    """What a word of the annotation turns on."""

    pytorch: tuple[str, ...] = ()
    mindspore: tuple[str, ...] = ()
    variables: Mapping[str, str] = _RECOVERY


_STRATEGIES: Final[Mapping[str, _Strategy]] = {
    "recover": _Strategy(("recover",), ("ARF:1",)),
    "exit": _Strategy(("recover",), ("ARF:1",)),
    "retry": _Strategy(("retry",), ("UCE:1", "HCCE:1")),
    "dump": _Strategy(("dump",), ("TTP:1",)),
    "recover-in-place": _Strategy(("recover",), ("ARF:1",), {**_RECOVERY, "ENABLE_RESTART_FAULT_PROCESS": _ON}),
}
_ELASTIC: Final = _Strategy(("elastic-training",), (), {"PROCESS_RECOVER": _ON})
"""PyTorch only."""


def recovery(job: AscendJob, framework: str, template: Mapping[str, str]) -> dict[str, str]:
    """The variables of a Pod; none for TensorFlow. ``template``: the variables that its template sets."""
    if framework == PYTORCH:
        return _pytorch(job, template)
    return _mindspore(job, template) if framework == MINDSPORE else {}


def _pytorch(job: AscendJob, template: Mapping[str, str]) -> dict[str, str]:
    strategies = list(_strategies(job, {**_STRATEGIES, "elastic-training": _ELASTIC}))
    found = _turned_on(strategies)
    if _annotation(job):
        found["HCCL_ASYNC_ERROR_HANDLING"] = "0"
        found[_AVAILABILITY] = _joined(word for each in strategies for word in each.pytorch)
    if _is_hot_switch(job):
        known = found.get(_AVAILABILITY, template.get(_AVAILABILITY, ""))
        found |= {_AVAILABILITY: _joined([*known.split(","), "recover"]), **_RECOVERY}
    return found


def _mindspore(job: AscendJob, template: Mapping[str, str]) -> dict[str, str]:
    strategies = list(_strategies(job, _STRATEGIES))
    found = _turned_on(strategies)
    reschedules = [_RESCHEDULING] if (job.metadata.labels or {}).get(POD_RESCHEDULING) == _ON else []
    if _annotation(job):
        found[_TFT] = _braced([*(word for each in strategies for word in each.mindspore), *reschedules])
        found |= {**_MINDIO, "MS_ENABLE_THM": "{HCCL_WATCHDOG:0}"}
    elif reschedules and _TFT not in template:
        found[_TFT] = _braced(reschedules)
    if _is_hot_switch(job):
        known = found.get(_TFT, template.get(_TFT, "")).strip().removeprefix("{").removesuffix("}")
        found |= {_TFT: _braced([*known.split(","), "ARF:1"]), **_MINDIO, **_RECOVERY}
    return found


def _annotation(job: AscendJob) -> str:
    return (job.metadata.annotations or {}).get(RECOVER_STRATEGY, "")


def _strategies(job: AscendJob, known: Mapping[str, _Strategy]) -> Iterator[_Strategy]:
    """Yields the strategies of the annotation. Unknown words are ignored, as by the operator."""
    for word in _annotation(job).split(","):
        if word.strip() in known:
            yield known[word.strip()]


def _turned_on(strategies: Iterable[_Strategy]) -> dict[str, str]:
    return {name: value for each in strategies for name, value in each.variables.items()}


def _is_hot_switch(job: AscendJob) -> bool:
    return (job.metadata.labels or {}).get(SUB_HEALTHY_STRATEGY) == _HOT_SWITCH


def _joined(words: Iterable[str]) -> str:
    return ",".join(sorted({word.strip() for word in words} - {""}))


def _braced(words: Iterable[str]) -> str:
    return f"{{{_joined(words)}}}"
