"""Words for messages: the likely meaning of a misspelt name, values of documents as their authors know them, and what a
queue uses of each card, for the command line and in the status of the queue for kubectl."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from scheduler.api.names import KUBE_SCHEDULER

REQUESTED_ONLY: Final = ("mem", "memory", "core", "cores", "-percentage", "-number")
"""Endings of resources of shared devices, which Pods request and nodes need not offer."""
_MAX_LENGTH: Final = 253
"""The longest name for which others are sought: the time grows with the square of the length."""
_MAX_KNOWN: Final = 2000
"""Names that are compared with one."""
_KEY_LIKENESS: Final = 0.75
"""The least likeness of parts of keys: that of four letters, of which two are interchanged."""
_MOST_LONGER: Final = 2


def listed(texts: Sequence[str], most: int, of: str = "", separator: str = ", ") -> str:
    """Returns ``a, b, c and 3 more``. ``most``: the number of texts that are named. ``of``: a word for the others."""
    more = f" and {len(texts) - most} more {of}".rstrip() if len(texts) > most else ""
    return separator.join(texts[:most]) + more


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
    from scheduler.api.reasons import MAX_FIELDS  # it loads numpy

    found = {named: ("spec.schedulerName", other_scheduler(named, schedulers))}
    for path, spec in pod_specs:
        name = spec.get("schedulerName")
        if isinstance(name, str) and name not in found and len(found) <= MAX_FIELDS:
            found[name] = (f"{path}.schedulerName", other_scheduler(name, schedulers, similar=True))
    return [(field, problem) for field, problem in found.values() if problem]


_LONGEST_VALUE: Final = 64
_NOTHING: Final = "nothing"


def type_of(value: object) -> str:
    """The kind of the value."""
    match value:
        case None:
            return _NOTHING
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case Mapping():
            return "a mapping"
        case Collection():
            return "a list"
        case _:
            return f"a {type(value).__name__}"  # YAML has dates and times


def value_of(value: object) -> str:
    """The value, a string in quotes; or what kind of value it is, if it has parts. "nothing" if it is missing or
    empty."""
    match value:
        case None | "":
            return _NOTHING
        case bool():
            return str(value).lower()
        case str():
            return repr(value[:_LONGEST_VALUE])
        case float() if value.is_integer():
            return str(int(value))[:_LONGEST_VALUE]
        case int() | float():
            return str(value)[:_LONGEST_VALUE]
        case Collection() if not value:
            return _NOTHING
        case _:
            return type_of(value)


def card_summary(cards: object) -> str:
    """The used amount and the quota, if any, of each card, with a note on its other amounts, and on those of the
    cluster if the quotas have a problem: ``NVIDIA-H200=3/3 (5 requested),NVIDIA-H800=0/2 (11 granted, 10 existing, 10
    healthy)``; "" if there are none. ``cards``: ``status.cards``, of any shape."""

    def note(its: Mapping[str, object]) -> str:
        totals = [f"{its.get(key)} {key}" for key in ("granted", "existing", "healthy")] if its.get("problem") else ()
        return ", ".join(filter(None, (usage_note(its), *totals)))

    def numbers(its: Mapping[str, object]) -> str:
        return "/".join(str(its.get(key)) for key in ("used", "quota") if key in its)

    return ",".join(
        f"{name}={numbers(its)}" + (f" ({text})" if (text := note(its)) else "")
        for name, its in cards_in(cards).items()
    )


def cards_in(cards: object) -> dict[str, dict[str, Any]]:
    """``status.cards`` by name, without what is no mapping."""
    listed = cards.items() if isinstance(cards, dict) else ()
    return dict(sorted((str(name), its) for name, its in listed if isinstance(its, dict)))


def usage_note(amounts: Mapping[str, object]) -> str:
    """A note on the amounts of a resource besides the used one, such as ``1 inqueue, 5 requested``; "" if there are
    none. ``amounts``: the texts of ``used``, ``inqueue``, ``requested``, ``borrowed`` and ``lent``;
    any may be missing. The requested amount is left out if all of it is in use."""
    noted = {key: amounts.get(key) for key in ("inqueue", "requested", "borrowed", "lent")}
    if noted["requested"] == amounts.get("used"):
        del noted["requested"]
    return ", ".join(f"{amount} {what}" for what, amount in noted.items() if amount not in (None, "", "0"))
