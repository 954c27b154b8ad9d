"""The syntax of arguments, which all plugins share."""

from dataclasses import dataclass

import pytest

from scheduler.api.job_plugins import ArgumentError, option, parse


@dataclass(frozen=True)
class Options:
    task_name: str = "master"
    port: int = option(22)
    quick: bool = True


def test_what_is_not_given_has_its_default() -> None:
    assert parse(Options, []) == Options("master", 22, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port=2222"],
        ["-port=2222"],
        ["--port", "2222"],
        ["-port", "2222"],
        ["--port=1", "--port=2222"],
        ["--port=2222", "--", "anything"],
    ],
)
def test_one_dash_or_two_and_one_item_or_two_are_the_same_and_the_last_one_rules(arguments: list[str]) -> None:
    assert parse(Options, arguments) == Options(port=2222)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(["--task-name=a=b"], "a=b"), (["--task-name="], ""), (["--task-name", "--port"], "--port")],
)
def test_a_value_is_what_follows_whatever_it_looks_like(arguments: list[str], name: str) -> None:
    assert parse(Options, arguments) == Options(task_name=name)


@pytest.mark.parametrize(
    ("argument", "quick"),
    [(f"--quick={word}", True) for word in ("1", "t", "T", "true", "True", "TRUE")]
    + [(f"--quick={word}", False) for word in ("0", "f", "F", "false", "False", "FALSE")]
    + [("--quick", True)],
)
def test_a_switch_takes_the_words_of_go(argument: str, quick: bool) -> None:
    assert parse(Options, [argument, "--port=5"]) == Options(port=5, quick=quick)


KNOWN = "allowed are --task-name, --port, --quick"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prot=1"], f"argument '--prot' is unknown; {KNOWN}"),
        (["---port=1"], f"argument '---port' is unknown; {KNOWN}"),
        (["--port 22"], f"argument '--port 22' is unknown; {KNOWN}"),
        (["port=22"], f"argument 'port' is unknown; {KNOWN}"),
        (["-"], f"argument '-' is unknown; {KNOWN}"),
        ([""], f"argument '' is unknown; {KNOWN}"),
        (["--quick", "false"], f"argument 'false' is unknown; {KNOWN}"),
        (["--port"], "argument --port needs a value"),
        (["--port="], "argument --port='' must be a whole number from 1 to 65535"),
        (["--port=022"], "argument --port='022' must be a whole number from 1 to 65535"),
        (["--port=65536"], "argument --port='65536' must be a whole number from 1 to 65535"),
        (["--port=２２"], "argument --port='２２' must be a whole number from 1 to 65535"),
        (["--port=" + "9" * 5000], "argument --port='999999999999...9999999999999' must be a whole number"),
        (["--quick=yes"], "argument --quick='yes' must be true or false"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_is_allowed(arguments: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as refusal:
        parse(Options, arguments)
    assert str(refusal.value).startswith(message)
