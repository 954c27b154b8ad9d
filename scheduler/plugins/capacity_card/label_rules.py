"""Names of cards by rules in the configuration (argument ``cardNames``), for resources that no built-in rule names.

A rule names a resource, and how the labels of a node name the cards that it counts::

    cardNames:
    - resource: example.com/ppu-slice-*
      name: "{example.com/ppu.product}/slice-{*}"

``{key}`` is the value of a label of the node, ``{*}`` what the ``*`` of the resource stands for. A name without ``/``
is that of whole cards. In the name of a part, a word of this rule and a hyphen follow the ``/``. No built-in kind and
no other rule has the word, so that each name of a part belongs to one rule.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.card_kinds import KINDS, MIG_PREFIX, MPS_RESOURCE, PART
from scheduler.api.cards import is_card_name
from scheduler.framework.arguments import Arguments

ARGUMENT: Final = "cardNames"
ANY: Final = "*"
_RESOURCE: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]{0,252}/[-A-Za-z0-9_.]{0,62}(?:\*[-A-Za-z0-9_.]{0,62})?")
_TEXT: Final = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_KEY: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,316}")
_PART: Final = re.compile(r"([a-z][a-z0-9]{0,15})-[^/]+")
_PLACEHOLDER: Final = "\0"
_MAX_RULES: Final = 64


class CardName(msgspec.Struct, frozen=True):
    """The name of the cards of one resource on a node."""

    name: str
    label: str = ""
    """The label that is missing or gives no valid name, if ``name`` is ""."""


class LabelRule(msgspec.Struct, frozen=True):
    """One rule."""

    resource: str
    """The name of the resource, with at most one ``*`` for any text without ``/``."""
    name: str

    @property
    def word(self) -> str:
        """The word of the parts; "" for whole cards."""
        match = _PART.fullmatch(self._skeleton.partition(PART)[2])
        return "" if match is None else match[1]

    @property
    def _skeleton(self) -> str:
        """The name with a placeholder for each label."""
        return _TEXT.sub(lambda found: found[2] or _PLACEHOLDER, self.name)

    def labels(self) -> Iterator[str]:
        """Yields the labels that the name has."""
        yield from (key for key, _ in _TEXT.findall(self.name) if key and key != ANY)

    def matched(self, resource: str) -> str | None:
        """Returns what the ``*`` stands for, "" without one; None if the rule is about other resources."""
        start, star, end = self.resource.partition(ANY)
        if not star:
            return "" if resource == start else None
        fits = len(resource) > len(start) + len(end) and resource.startswith(start) and resource.endswith(end)
        text = resource[len(start) : len(resource) - len(end)]
        return text if fits and PART not in text else None

    def card(self, text: str, labels: Mapping[str, str]) -> CardName:
        """Returns the name of the cards on a node with these labels. ``text``: what the ``*`` stands for."""
        missing = next((key for key in self.labels() if not labels.get(key)), None)
        if missing is not None:
            return CardName("", missing)
        values = {ANY: text, **labels}
        name = _TEXT.sub(lambda found: found[2] or values[found[1]], self.name)
        return CardName(name) if is_card_name(name) else CardName("", next(self.labels(), ""))


def read_rules(arguments: Arguments) -> tuple[LabelRule, ...]:
    """Reads the argument; entries that are no rules are reported and ignored."""
    value: Any = arguments.get(ARGUMENT)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MAX_RULES:
        return arguments.set_aside(ARGUMENT, value, f"not a list of at most {_MAX_RULES} rules", ())
    rules: list[LabelRule] = []
    for entry in value:
        fields = entry if isinstance(entry, Mapping) else {}
        if set(fields) != {"resource", "name"}:
            arguments.set_aside(ARGUMENT, entry, "not a mapping with the keys resource and name", None)
            continue
        rule = LabelRule(str(fields["resource"]), str(fields["name"]))
        problem = _problem(rule, rules)
        if problem:
            arguments.set_aside(ARGUMENT, f"{rule.resource}: {rule.name}", problem, None)
        else:
            rules.append(rule)
    return tuple(rules)


def _problem(rule: LabelRule, earlier: list[LabelRule]) -> str:
    """Returns why a rule is not valid, or ""."""
    if _RESOURCE.fullmatch(rule.resource) is None:
        return "a rule whose resource is not a name such as example.com/card or example.com/slice-*"
    if rule.matched(MPS_RESOURCE) is not None or rule.resource.startswith(MIG_PREFIX):
        return "a rule for MPS or MIG, whose names are fixed"
    found = _TEXT.findall(rule.name)
    keys = [key for key, text in found if not text]
    if sum(len(key) + 2 if not text else len(text) for key, text in found) != len(rule.name) or not found:
        return "a rule whose name has an unmatched brace, or is empty"
    if not all(key == ANY or _KEY.fullmatch(key) for key in keys):
        return "a rule with a placeholder that is neither the key of a label nor *"
    if ANY in keys and ANY not in rule.resource:
        return "a rule whose name has {*}, and whose resource has no *"
    if not any(key != ANY for key in keys):
        return "a rule whose name has no label of the node"
    skeleton = rule._skeleton
    if not is_card_name(skeleton.replace(_PLACEHOLDER, "x")):
        return "a rule whose name has characters that names of cards do not have"
    if PART not in skeleton:
        return ""
    if not rule.word:
        return "a rule whose part is not a word, a hyphen and more: <model>/slice-{*}"
    if rule.word in KINDS or any(rule.word == other.word for other in earlier):
        return f"a rule with the word {rule.word}, which another kind of cards has"
    return ""
