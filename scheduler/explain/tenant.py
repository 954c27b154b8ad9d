"""Leaves out of an explanation what a tenant may not read: objects of other namespaces, queues that are not theirs, and
nodes.

A tenant is a user with rights in one namespace. Counts take the place of names. Numbers stay: a quota is only
understood with what others use of it.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from scheduler.api.kinds import HYPER_NODE, JOB_TEMPLATE, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VCJOB, VOLUME, Kind
from scheduler.api.reasons import Shortage
from scheduler.explain.can_run import RunAnswer
from scheduler.explain.explanation import Explanation
from scheduler.framework.remedies.gates import Gate

HIDDEN: Final = "(hidden)"
_TOKEN: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9._]*[A-Za-z0-9])?"
_PAIR: Final = re.compile(rf"(?<![-\w./])({_TOKEN})/({_TOKEN})(?![\w/])")
_NAMED: Final = re.compile(
    r"\b(?P<kind>[Qq]ueue|[Nn]ode|HyperNode|on|[Nn]amespace|[Jj]ob|[Pp]od|PodGroup|[Cc]laim|[Vv]olume)(?P<space> '?)"
    rf"(?P<name>{_TOKEN})(?![\w/])"
)
_WORD: Final = re.compile(rf"(?<![-\w./])({_TOKEN})(?![\w/])")
_AMOUNT: Final = re.compile(r"[0-9][0-9.]*[A-Za-z]{0,2}")
_HINT: Final = re.compile(r"; did you mean '([^']*)'\?$")
_MARK: Final = "\0"
_MARKS: Final = re.compile(rf"{_MARK}(?:, {_MARK})*(?: and ([0-9]+) more)?")
Raw = dict[str, Any]


class TenantObjects(Protocol):
    """The objects of a cluster."""

    def of(self, kind: Kind) -> Iterable[Raw]: ...


class HiddenNames(msgspec.Struct, frozen=True):
    """The names that a tenant may not read."""

    namespaces: frozenset[str]
    """The other namespaces."""
    queues: frozenset[str]
    nodes: frozenset[str]
    """Nodes and HyperNodes."""
    objects: frozenset[str]
    """Pods, PodGroups and jobs of other namespaces, and their volumes."""

    def mask(self, text: str) -> str:
        """The text with counts and ``(hidden)`` in place of these names.

        A word that is also a name, such as ``train`` or ``cpu``, is taken for a name only after the kind of an object:
        otherwise a tenant could garble the messages of others by the name of a job.
        """
        text = _PAIR.sub(lambda found: _MARK if found[1] in self.namespaces else found[0], text)
        text = _NAMED.sub(self._mask_named, text)
        text = _WORD.sub(lambda found: HIDDEN if _is_a_name(found[1]) and self.hides(found[1]) else found[0], text)
        return _MARKS.sub(_count, text)

    def without_hint(self, text: str) -> str:
        """The text without the name that it proposes at its end, if that is one of these."""
        return _HINT.sub(lambda found: "" if self.hides(found[1]) else found[0], text)

    def hides(self, name: str) -> bool:
        """Whether a name, or ``namespace/name``, is one of these."""
        namespace, slash, _ = name.partition("/")
        if slash:
            return namespace in self.namespaces
        return any(name in names for names in (self.namespaces, self.queues, self.nodes, self.objects))

    def _mask_named(self, found: re.Match[str]) -> str:
        names = {
            "queue": self.queues,
            "node": self.nodes,
            "hypernode": self.nodes,
            "on": self.nodes,
            "namespace": self.namespaces,
        }.get(found["kind"].lower(), self.objects)
        return f"{found['kind']}{found['space']}{HIDDEN}" if found["name"] in names else found[0]


def _is_a_name(word: str) -> bool:
    """Whether a word looks like the name of an object, rather than a word or an amount."""
    return not word.isalpha() and not _AMOUNT.fullmatch(word)


def _count(found: re.Match[str]) -> str:
    number = found[0].count(_MARK) + int(found[1] or 0)
    return f"{number} of another namespace" if number == 1 else f"{number} of other namespaces"


def hidden_names(objects: TenantObjects, namespace: str, queues: Iterable[str]) -> HiddenNames:
    """The names that a tenant of a namespace may not read. ``queues``: the tenant's queues, with those above them."""
    own: set[str] = set()
    nodes_in_use: set[str] = set()
    names: set[str] = set()
    namespaces = {raw["metadata"]["name"] for raw in objects.of(NAMESPACE)} - {namespace}
    for kind in (POD, POD_GROUP, VCJOB, JOB_TEMPLATE):
        for raw in objects.of(kind):
            meta = raw["metadata"]
            if meta["namespace"] != namespace:
                namespaces.add(meta["namespace"])
                names.add(meta["name"])
                continue
            own.add(meta["name"])
            if kind is POD:
                nodes_in_use.add(raw["spec"].get("nodeName") or "")
    nodes = {raw["metadata"]["name"] for kind in (NODE, HYPER_NODE) for raw in objects.of(kind)}
    for raw in objects.of(VOLUME):
        claim = raw["spec"].get("claimRef")
        if isinstance(claim, dict) and claim.get("namespace") != namespace:
            names.add(raw["metadata"]["name"])
    return HiddenNames(
        frozenset(namespaces),
        frozenset({raw["metadata"]["name"] for raw in objects.of(QUEUE)}.difference(queues)),
        frozenset(nodes - nodes_in_use),
        frozenset(names - own),
    )


def for_tenant(found: Explanation, hidden: HiddenNames) -> Explanation:
    """The explanation for a tenant. Nodes, their scores and Pods, and changes of the cluster are left out: their
    reasons and numbers are in ``gates``."""
    position = found.queue_position
    return replace(
        found,
        state=hidden.mask(found.state),
        queue_position=None if position is None else replace(position, before=()),
        gates=[_gate(gate, hidden) for gate in found.gates],
        alternatives=tuple(replace(each, reason=hidden.mask(each.reason)) for each in found.alternatives),
        nodes=[],
        resizing=[],
        ranking=None,
        changes=[],
        searched=False,
        remedy_errors=[],
        problems=[],
    )


def run_for_tenant(found: RunAnswer, hidden: HiddenNames) -> RunAnswer:
    """The answer about a submitted job for a tenant: the number of evicted Pods takes the place of their names."""
    return replace(
        found,
        state=hidden.mask(found.state),
        refusal=hidden.mask(found.refusal),
        evicted=(),
        now=None if found.now is None else for_tenant(found.now, hidden),
        empty=None if found.empty is None else for_tenant(found.empty, hidden),
    )


def _gate(gate: Gate, hidden: HiddenNames) -> Gate:
    shortages = tuple(_shortage(shortage, hidden) for shortage in gate.shortages)
    return replace(gate, message=hidden.mask(gate.message), shortages=shortages)


def _shortage(shortage: Shortage, hidden: HiddenNames) -> Shortage:
    return replace(shortage, name="") if hidden.hides(shortage.name) else shortage
