"""Names of cards by rules in the configuration."""

from typing import Any

import pytest

from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration_file import parse_configuration
from scheduler.plugins.capacity_card.card_labels import read_cards
from scheduler.plugins.capacity_card.card_resources import CardResources
from scheduler.plugins.capacity_card.label_rules import CardName, LabelRule, read_rules
from tests.builders import World, configuration, node
from tests.unit.plugins.capacity_card.cards import GPU, H200, card_group, card_pod, labels, quota_queue

SLICES = LabelRule("example.com/slice-*", "{example.com/model}/slice-{*}")
MODEL = {"example.com/model": "PPU-ZW810E"}


def rules(*entries: Any) -> tuple[tuple[LabelRule, ...], list[str]]:
    arguments = Arguments({"cardNames": list(entries)})
    return read_rules(arguments), arguments.problems


def as_entry(rule: LabelRule) -> dict[str, str]:
    return {"resource": rule.resource, "name": rule.name}


def cards_of(given: dict[str, str], *resources: str, rule: LabelRule = SLICES) -> tuple[dict[str, str], list[str]]:
    read = read_cards("n", given, resources, CardResources(rules=(rule,)))
    return dict(read.by_resource), [f"{problem.field}: {problem.problem}" for problem in read.problems]


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("example.com/slice-2", "2"),
        ("example.com/slice-", None),
        ("example.com/slice-a/b", None),
        ("example.com/x", None),
    ],
)
def test_a_star_stands_for_any_text_without_a_slash(resource: str, text: str | None) -> None:
    assert SLICES.matched(resource) == text


def test_a_rule_names_the_cards_of_a_node_by_its_labels() -> None:
    assert cards_of(MODEL, "example.com/slice-2", "example.com/slice-4", "cpu") == (
        {"example.com/slice-2": "PPU-ZW810E/slice-2", "example.com/slice-4": "PPU-ZW810E/slice-4"},
        [],
    )


def test_a_rule_without_a_slash_names_whole_cards() -> None:
    rule = LabelRule("example.com/card", "{example.com/vendor}-{example.com/model}")
    given = {"example.com/vendor": "PPU", "example.com/model": "ZW810E"}
    assert cards_of(given, "example.com/card", rule=rule) == ({"example.com/card": "PPU-ZW810E"}, [])


def test_a_rule_takes_precedence_over_a_product_label() -> None:
    rule = LabelRule("example.com/card", "{example.com/model}")
    product = {"example.com/card.product": "other", "example.com/card.count": "1"}
    assert cards_of(product | MODEL, "example.com/card", rule=rule)[0] == {"example.com/card": "PPU-ZW810E"}


def test_a_missing_label_is_reported_and_the_cards_have_no_name() -> None:
    found, problems = cards_of({}, "example.com/slice-2")
    assert found == {}
    assert problems == ["metadata.labels[example.com/model]: missing, so the model of the node's cards is not known"]


def test_a_label_that_gives_no_name_is_reported() -> None:
    found, (problem,) = cards_of({"example.com/model": "A B"}, "example.com/slice-2")
    assert found == {}
    assert problem.startswith("metadata.labels[example.com/model]: 'A B' gives no name of a card by the rule")


def test_valid_rules_are_read_in_order() -> None:
    other = LabelRule("example.com/card", "{example.com/model}")
    assert rules(as_entry(SLICES), as_entry(other)) == ((SLICES, other), [])


@pytest.mark.parametrize(
    ("resource", "name", "problem"),
    [
        ("", "{a}", "resource is not a name"),
        ("cpu", "{a}", "resource is not a name"),
        ("example.com/*-*", "{a}", "resource is not a name"),
        ("example.com/a b", "{a}", "resource is not a name"),
        ("nvidia.com/gpu.shared", "{a}", "MPS or MIG, whose names are fixed"),
        ("nvidia.com/gpu.*", "{a}", "MPS or MIG, whose names are fixed"),
        ("nvidia.com/mig-*", "{a}/part-{*}", "MPS or MIG, whose names are fixed"),
        ("example.com/a", "", "unmatched brace, or is empty"),
        ("example.com/a", "{a", "unmatched brace, or is empty"),
        ("example.com/a", "{a}}", "unmatched brace, or is empty"),
        ("example.com/a", "{}", "neither the key of a label nor *"),
        ("example.com/a", "{a b}", "neither the key of a label nor *"),
        ("example.com/a", "{a}/part-{*}", "whose resource has no *"),
        ("example.com/a", "PPU", "has no label of the node"),
        ("example.com/*", "{*}", "has no label of the node"),
        ("example.com/a", "{a} b", "characters that names of cards do not have"),
        ("example.com/a", "{a}|{b}", "characters that names of cards do not have"),
        ("example.com/a", "-{a}", "characters that names of cards do not have"),
        ("example.com/a", "{a}/{b}", "is not a word, a hyphen and more"),
        ("example.com/a", "{a}/part", "is not a word, a hyphen and more"),
        ("example.com/a", "{a}/part-1/2", "is not a word, a hyphen and more"),
        ("example.com/a", "{a}/vgpu-{b}", "the word vgpu, which another kind of cards has"),
        ("example.com/a", "{a}/mig-{b}-mixed", "the word mig, which another kind of cards has"),
    ],
)
def test_a_malformed_rule_is_set_aside(resource: str, name: str, problem: str) -> None:
    found, (reported,) = rules({"resource": resource, "name": name}, as_entry(SLICES))
    assert found == (SLICES,)
    assert reported.startswith("argument cardNames: ") and problem in reported


@pytest.mark.parametrize("entry", [1, "x", None, {}, {"resource": "example.com/a"}, {**as_entry(SLICES), "more": 1}])
def test_an_entry_that_is_no_rule_is_set_aside(entry: Any) -> None:
    found, (reported,) = rules(entry, as_entry(SLICES))
    assert found == (SLICES,)
    assert "not a mapping with the keys resource and name" in reported


@pytest.mark.parametrize("value", ["x", {"resource": "a"}, [as_entry(SLICES)] * 65])
def test_an_argument_that_is_no_list_of_rules_is_set_aside(value: Any) -> None:
    arguments = Arguments({"cardNames": value})
    assert read_rules(arguments) == ()
    assert "not a list of at most 64 rules" in arguments.problems[0]


def test_two_rules_have_different_words() -> None:
    found, (reported,) = rules(as_entry(SLICES), {"resource": "example.com/b", "name": "{b}/slice-1"})
    assert found == (SLICES,)
    assert "the word slice, which another kind of cards has" in reported


def test_a_missing_name_is_no_name() -> None:
    assert SLICES.card("2", {"example.com/model": ""}) == CardName("", "example.com/model")


def test_the_warning_names_the_argument() -> None:
    entry = '{resource: example.com/a, name: "{a}/mps-1"}'
    text = (
        f'actions: "allocate"\ntiers: [{{plugins: [{{name: capacity-card, arguments: {{cardNames: [{entry}]}}}}]}}]\n'
    )
    conf = parse_configuration(text, "conf")
    world = World(node("n", "4c"), quota_queue("q", {}), card_group("g", "q"), card_pod("p", "g")).run(conf)
    assert world.outcome is not None
    (problem,) = world.outcome.session.problems
    assert problem.startswith("plugin capacity-card: argument cardNames: ")


def test_a_rule_for_a_resource_that_labels_name_gives_the_quota_its_name() -> None:
    entry = {"resource": GPU, "name": "{gpu.example.com/model}"}
    conf = configuration(["priority", "gang"], ["capacity-card"], arguments={"capacity-card": {"cardNames": [entry]}})
    described = labels(H200) | {"gpu.example.com/model": "H200-NVL"}
    queue = quota_queue("q", {"H200-NVL": 1})
    world = World(
        node("n", f"8c+8Gi+{GPU}=8", described),
        queue,
        card_group("g", "q", phase="Inqueue"),
        card_pod("p", "g", "H200-NVL"),
    ).run(conf)
    assert world.bound == {"p": "n"}
