"""The configuration file: accepted files, and files that are refused with file, line or field, and reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.framework.configuration import Configuration, SourceType, UsageSource
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, ConfigurationError, parse_configuration
from scheduler.framework.extension import FLAGS

TIERS = "tiers:\n- plugins:\n  - name: gang\n"


def parse(text: str) -> Configuration:
    return parse_configuration(text, "conf.yaml")


# --- good ---
def test_the_built_in_configuration_is_read() -> None:
    configuration = parse(DEFAULT_CONFIGURATION)
    assert configuration.actions == ("enqueue", "allocate", "backfill")
    assert [option.name for option in configuration.tiers[0]] == ["priority", "gang", "conformance"]
    assert configuration.has_action("enqueue") and not configuration.has_action("preempt")


def test_flags_arguments_and_action_arguments_are_kept() -> None:
    configuration = parse(
        "actions: ' allocate ,backfill'\n"
        "tiers:\n- plugins:\n  - {name: gang, enablePreemptable: false}\n  - name: binpack\n"
        "    arguments: {binpack.weight: 3, 7: x}\n"
        "configurations:\n- name: allocate\n  arguments: {predicateErrorCacheEnable: false}\n"
        "metrics: {type: prometheus, address: 'http://p:9090'}\nsomething: else\n"
    )
    gang, binpack = configuration.tiers[0]
    assert configuration.actions == ("allocate", "backfill")
    assert gang.enabled("enableJobOrder") and not gang.enabled("enablePreemptable")
    assert binpack.arguments == {"binpack.weight": 3, "7": "x"}
    assert configuration.action_arguments == {"allocate": {"predicateErrorCacheEnable": False}}
    assert configuration.metrics == UsageSource(SourceType.PROMETHEUS, "http://p:9090")


def test_every_flag_is_on_unless_said_otherwise_but_that_of_hierarchy() -> None:
    (option,) = parse(f"actions: allocate\n{TIERS}").tiers[0]
    assert option.enabled("enableJobOrder") and option.enabled("enabledOverused") and option.enabled("")
    assert not option.enabled("enableHierarchy")


def test_a_flag_without_a_value_says_nothing() -> None:
    plugin = "{name: gang, enableJobOrder: , enableHierarchy: null}"
    (option,) = parse(f"actions: allocate\ntiers: [{{plugins: [{plugin}]}}]").tiers[0]
    assert option.enabled("enableJobOrder") and not option.enabled("enableHierarchy")


def test_of_several_entries_for_one_action_the_first_counts() -> None:
    entries = "configurations:\n- {name: preempt, arguments: {a: 1}}\n- {name: preempt, arguments: {a: 2}}\n"
    assert parse(f"actions: allocate\n{entries}").action_arguments == {"preempt": {"a": 1}}


def test_an_unknown_plugin_is_only_warned_of() -> None:
    configuration = parse("actions: allocate\ntiers:\n- plugins:\n  - name: gagn\n")
    assert (
        "conf.yaml: tiers[0].plugins[0]: unknown plugin 'gagn' is ignored (is its module in"
        in configuration.warnings[0]
    )


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("tier: []\n", "tier: unknown field is ignored; known: actions, tiers, configurations, metrics"),
        ("2: 3\n", "2: unknown field is ignored"),
        ("tiers: [{plugin: []}]\n", "tiers[0].plugin: unknown field is ignored; known: plugins"),
        (
            "tiers: [{plugins: [{name: gang, argument: {a: 1}}]}]\n",
            "tiers[0].plugins[0].argument: unknown field is ignored; known: name, arguments, flags such as",
        ),
        (
            "tiers: [{plugins: [{name: gang, enableJobOrdr: false}]}]\n",
            "tiers[0].plugins[0].enableJobOrdr: unknown field is ignored; known: enableBestNode, ",
        ),
        ("configurations: [{name: allocate, argument: {}}]\n", "configurations[0].argument: unknown field is ignored"),
        ("configurations: [{name: alocate}]\n", "configurations[0].name: there is no action 'alocate'; the entry is"),
        (
            "configurations: [{name: enqueue}, {name: enqueue}]\n",
            "configurations[1].name: enqueue has an entry already",
        ),
        ("tiers: [{plugins: [{name: gang}, {name: gang}]}]\n", "plugin gang is configured 2 times"),
    ],
)
def test_what_has_no_effect_causes_a_warning_with_its_place(text: str, warning: str) -> None:
    found = [w for w in parse(f"actions: allocate\n{text}").warnings if "no plugin is enabled" not in w]
    assert len(found) == 1
    assert found[0].startswith(f"conf.yaml: {warning}")


def test_what_volcano_knows_causes_no_warning() -> None:
    flags = ", ".join(f"{flag}: true" for flag in FLAGS)
    entries = "configurations: [{name: init-params, arguments: {grace-over-time: '900'}}, {name: preempt}]\n"
    parsed = parse(f"actions: allocate\n{entries}metrics: {{}}\ntiers: [{{plugins: [{{name: gang, {flags}}}]}}]\n")
    assert parsed.warnings == ()


@pytest.mark.parametrize(
    "tiers", ["", "tiers: []\n", "tiers: [{plugins: []}]\n", "tiers: [{plugins: [{name: gagn}]}]\n"]
)
def test_a_file_that_enables_no_plugin_causes_a_warning(tiers: str) -> None:
    warnings = parse(f"actions: allocate\n{tiers}").warnings
    assert warnings[-1].startswith("conf.yaml: no plugin is enabled")


@pytest.mark.parametrize(
    "text", ["actions: allocate", "actions: allocate\ntiers: []", "actions: allocate\ntiers:\n- {}"]
)
def test_no_plugins_at_all_is_a_configuration(text: str) -> None:
    assert not any(parse(text).tiers)


# --- bad ---
@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "the file: expected a mapping"),
        ("# nothing\n", "the file: expected a mapping"),
        ("- actions", "the file: expected a mapping, got a list"),
        ("allocate", "the file: expected a mapping, got a string"),
        ("actions: allocate\ntiers:\n- plugins: [\n", "conf.yaml:4: "),
        ("actions: 'allocate\n", "conf.yaml:"),
        ("actions: *missing", "conf.yaml:1: "),
        ("actions: \x00", "not YAML"),
        ("a: b: c", "conf.yaml:1: "),
        ("actions: allocate\nx: !!python/object:os.system {}", "conf.yaml:2: "),
        ("tiers: []", "actions: the field is missing"),
        ("action: allocate\ntiers: []\ntier: []", "actions: the field is missing; unknown fields: action, tier"),
        (
            "actions: allocate\ntiers: [{plugins: [{nam: gang, enableJobOrder: true}]}]",
            "tiers[0].plugins[0].name: expected a plugin's name, got nothing; unknown fields: nam",
        ),
        ("actions: ''", "actions: failed to find Action ''"),
        ("actions: allocate,", "actions: failed to find Action ''"),
        ("actions: allocate, alocate", "actions: failed to find Action 'alocate'; known: "),
        ("actions: [allocate]", "actions: expected a comma-separated string, got a list"),
        ("actions: 1", "actions: expected a comma-separated string, got a number"),
        ("actions: ", "actions: expected a comma-separated string, got nothing"),
        ("actions: allocate\ntiers: 3", "tiers: expected a list, got a number"),
        ("actions: allocate\ntiers: [3]", "tiers[0]: expected a mapping, got a number"),
        ("actions: allocate\ntiers: [{plugins: {}}]", "tiers[0].plugins: expected a list, got a mapping"),
        ("actions: allocate\ntiers: [{plugins: [gang]}]", "tiers[0].plugins[0]: expected a mapping, got a string"),
        ("actions: allocate\ntiers: [{plugins: [{}]}]", "tiers[0].plugins[0].name: expected a plugin's name"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: 5}]}]",
            "tiers[0].plugins[0].name: expected a plugin's name, got 5",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: 'no'}]}]",
            "tiers[0].plugins[0].enableJobOrder: expected true or false, got 'no'",
        ),
        (
            "actions: allocate\ntiers: [{plugins: [{name: gang, arguments: [1]}]}]",
            "tiers[0].plugins[0].arguments: expected a mapping, got a list",
        ),
        ("actions: allocate\nconfigurations: {}\n", "configurations: expected a list, got a mapping"),
        ("actions: allocate\nconfigurations: [3]\n", "configurations[0]: expected a mapping, got a number"),
        ("actions: allocate\nconfigurations: [{arguments: 3}]\n", "configurations[0].arguments: expected a mapping"),
        ("actions: allocate\nmetrics: prometheus\n", "metrics: expected a mapping, got a string"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    assert str(caught.value).startswith("conf.yaml")
    assert where in str(caught.value)


def test_hierarchical_drf_and_proportion_in_one_tier_conflict() -> None:
    def tiers(between: str) -> str:
        drf = "  - {name: drf, enableHierarchy: true}\n"
        return f"actions: allocate\ntiers:\n- plugins:\n{drf}{between}  - name: proportion\n"

    with pytest.raises(ConfigurationError, match="proportion and drf with hierarchy enabled conflicts"):
        parse(tiers(""))
    assert len(parse(tiers("- plugins:\n")).tiers) == 2
    assert len(parse(tiers("").replace(", enableHierarchy: true", "")).tiers) == 1


def test_deeply_nested_text_is_refused_not_fatal() -> None:
    with pytest.raises(ConfigurationError, match=r":1: nested more than 100 deep"):
        parse("actions: " + "[" * 100_000)


def test_a_list_that_holds_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r":2: 'a' is nested in itself"):
        parse("actions: allocate\ntiers: &a [*a]\n")


@given(st.text(max_size=60))
def test_arbitrary_text_is_a_configuration_or_an_error_of_ours(text: str) -> None:
    try:
        parse(text)
    except ConfigurationError as error:
        assert str(error).startswith("conf.yaml")
