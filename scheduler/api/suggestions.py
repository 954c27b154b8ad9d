"""The likely meaning of a misspelt name."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from scheduler.api.names import KUBE_SCHEDULER
from scheduler.api.reasons import MAX_FIELDS

REQUESTED_ONLY: Final = ("mem", "memory", "core", "cores", "-percentage", "-number")
"""Endings of resources of shared devices, which Pods request and nodes need not offer."""
_MAX_LENGTH: Final = 253
"""The longest name for which others are sought: the time grows with the square of the length."""
_MAX_KNOWN: Final = 2000
"""Names that are compared with one."""
_KEY_LIKENESS: Final = 0.75
"""The least likeness of parts of keys: that of four letters, of which two are interchanged."""
_MOST_LONGER: Final = 2


def closest(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Returns the known name that resembles a name most; "" if none resembles it. ``likeness``: from 0 to 1, the least
    that counts."""
    names = sorted(known)
    return "" if len(name) > _MAX_LENGTH or len(names) > _MAX_KNOWN else _closest(name, tuple(names), likeness)


@lru_cache(maxsize=256)
def _closest(name: str, known: tuple[str, ...], likeness: float) -> str:
    from difflib import get_close_matches

    by_folded = {each.lower(): each for each in known if len(each) <= _MAX_LENGTH}
    return next((by_folded[each] for each in get_close_matches(name.lower(), by_folded, 1, likeness)), "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name: ``; did you mean 'minAvailable'?``, or "" if no known name
    resembles it."""
    found = closest(name, known)
    return f"; did you mean {found!r}?" if found else ""


def similar_resource(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """``closest`` for the name of a resource. Requests for parts of shared devices, such as memory, need not resemble a
    resource of nodes, so they only resemble each other."""
    found = closest(name, known, likeness)
    return found if found.endswith(REQUESTED_ONLY) or not name.endswith(REQUESTED_ONLY) else ""


def similar_key(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """``closest`` for the key of a label, annotation or taint, such as ``kubernetes.io/arch``: the prefix or the name
    after it is the same, and the other differs by two characters in length at most. Many keys share a long part."""
    prefix, _, word = name.rpartition("/")
    parts = {key: key.rpartition("/") for key in known if abs(len(key) - len(name)) <= _MOST_LONGER}
    words = {own: key for key, (start, _, own) in parts.items() if start == prefix}
    prefixes = {start: key for key, (start, _, own) in parts.items() if own == word}
    likeness = max(likeness, _KEY_LIKENESS)
    return words.get(closest(word, words, likeness)) or prefixes.get(closest(prefix, prefixes, likeness)) or ""


def other_scheduler(name: str, schedulers: Collection[str], *, similar: bool = False) -> str:
    """What is wrong with a schedulerName, or "": it is the name of another scheduler than ``schedulers`` and
    kube-scheduler. ``similar``: only if it resembles one of them."""
    if not schedulers or name in ("", KUBE_SCHEDULER) or name in schedulers:
        return ""
    if similar and not closest(name, schedulers):
        return ""
    return f"{name[:253]!r} is not a name of this scheduler ({', '.join(schedulers)}){did_you_mean(name, schedulers)}"


def scheduler_problems(
    named: str, pod_specs: Iterable[tuple[str, Mapping[str, Any]]], schedulers: Collection[str]
) -> list[tuple[str, str]]:
    """Returns field and problem of each name that is none of ``schedulers``: of the job's, and of those in Pod
    templates that resemble one of them. Each name once, ten at most.

    ``named``: the schedulerName of the job, or ""; ``pod_specs``: the specs of its templates with their paths.
    """
    found = {named: ("spec.schedulerName", other_scheduler(named, schedulers))}
    for path, spec in pod_specs:
        name = spec.get("schedulerName")
        if isinstance(name, str) and name not in found and len(found) <= MAX_FIELDS:
            found[name] = (f"{path}.schedulerName", other_scheduler(name, schedulers, similar=True))
    return [(field, problem) for field, problem in found.values() if problem]
