"""The grid of ``node chips``: a row for each node, a column for each chip, and letters for Pods."""

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.device_states import Device, DeviceState
from scheduler.cli import text
from scheduler.cli.chip_grid import grid_lines

NOW = 1_000_000.0
ESCAPE = "\x1b"


def chips(
    node: str,
    number: int,
    special: Mapping[int, tuple[DeviceState, Sequence[str]]] | None = None,
    *,
    size: int = 0,
    grouped_by: str = "ring",
    reported: float = 0.0,
) -> list[Device]:
    """The chips 0 to ``number`` - 1 of a node in groups of ``size``; free except for ``special``: number -> state and
    Pods."""
    found = []
    for i in range(number):
        state, pods = (special or {}).get(i, (DeviceState.FREE, ()))
        group = (i // size, grouped_by) if size else (0, "")
        found.append(
            Device(node, "huawei.com/Ascend910", f"Ascend910-{i}", state, tuple(pods), *group, reported=reported)
        )
    return found


def test_a_row_shows_states_and_pods_and_gaps_between_groups() -> None:
    special: dict[int, tuple[DeviceState, Sequence[str]]] = {
        0: (DeviceState.USED, ["default/train-0"]),
        1: (DeviceState.BINDING, ["default/serve-0"]),
        2: (DeviceState.PIPELINED, ["default/train-0", "default/next-0"]),
        3: (DeviceState.TERMINATING, ["default/train-0"]),
        4: (DeviceState.NETWORK_UNHEALTHY, []),
        5: (DeviceState.UNHEALTHY, []),
        6: (DeviceState.RECOVERING, []),
        7: (DeviceState.UNKNOWN, []),
    }
    devices = [*chips("n1", 8, special, size=4, reported=NOW - 90), *chips("node-2", 8, size=4)]
    assert grid_lines(devices, NOW, None) == [
        "huawei.com/Ascend910, by ring",
        "Node    Free  Report  0  1  2  3   4  5  6  7    Pods",
        "n1      1/8   90s     a  b+ c> a-  ~  !  ^  ?    a default/train-0  b default/serve-0  c default/next-0",
        "node-2  8/8   -       .  .  .  .   .  .  .  .",
        "",
        ". free  ~ free, with a network fault  a used  a- used by a Pod that is being deleted"
        "  a+ assigned by the next session  a> reserved for a Pod that waits  ! unhealthy  ^ recovering"
        "  ? given to no Pod",
    ]


def test_a_chip_that_several_pods_share_has_a_sign_of_its_own() -> None:
    special: dict[int, tuple[DeviceState, Sequence[str]]] = {
        0: (DeviceState.DIVIDED, ["p/a", "p/b"]),
        1: (DeviceState.DIVIDED, ["p/b"]),
        2: (DeviceState.DIVIDED, []),
    }
    assert grid_lines(chips("n", 3, special), NOW, None)[2] == "n     0/3   -       */ b/ /    a p/a  b p/b"


def test_a_pod_with_an_unhealthy_chip_is_shown() -> None:
    special = {0: (DeviceState.UNHEALTHY, ["p/a"]), 1: (DeviceState.RECOVERING, ["p/a"])}
    assert grid_lines(chips("n", 2, special), NOW, None)[2] == "n     0/2   -       a! a^   a p/a"


def test_what_is_wrong_with_a_node_comes_before_its_pods() -> None:
    devices = [device._replace(note="not ready") for device in chips("n", 2, {0: (DeviceState.USED, ["p/a"])})]
    assert grid_lines(devices, NOW, None)[2] == "n     1/2   -       a  .    [not ready]  a p/a"


def test_kinds_of_nodes_have_tables_of_their_own() -> None:
    lines = grid_lines([*chips("a", 4, size=2, grouped_by="card"), *chips("b", 4)], NOW, None)
    assert lines[:7] == [
        "huawei.com/Ascend910, by card",
        "Node  Free  Report  0  1   2  3    Pods",
        "a     4/4   -       .  .   .  .",
        "",
        "huawei.com/Ascend910",
        "Node  Free  Report  0  1  2  3    Pods",
        "b     4/4   -       .  .  .  .",
    ]


def test_a_chip_that_one_node_lacks_leaves_its_column_empty() -> None:
    devices = [device for device in chips("a", 4) if device.name != "Ascend910-1"]
    lines = grid_lines([*devices, *chips("b", 4)], NOW, None)
    assert lines[2:4] == ["a     3/3   -       .     .  .", "b     4/4   -       .  .  .  ."]


def test_sixty_four_chips_take_several_lines_of_eighty_columns() -> None:
    lines = grid_lines(chips("infer-1", 64, size=4), NOW, 80)
    assert lines[1:9] == [
        "Node     Free   Report  0  1  2  3   4  5  6  7   8  9  10 11  12 13 14 15",
        "                        16 17 18 19  20 21 22 23  24 25 26 27  28 29 30 31",
        "                        32 33 34 35  36 37 38 39  40 41 42 43  44 45 46 47",
        "                        48 49 50 51  52 53 54 55  56 57 58 59  60 61 62 63",
        "infer-1  64/64  -       .  .  .  .   .  .  .  .   .  .  .  .   .  .  .  .",
        *["                        .  .  .  .   .  .  .  .   .  .  .  .   .  .  .  ."] * 3,
    ]


def test_pods_that_do_not_fit_beside_the_chips_follow_below() -> None:
    special = {i: (DeviceState.USED, [f"default/a-rather-long-name-{i}"]) for i in range(3)}
    assert grid_lines(chips("n", 16, special, size=2), NOW, 80)[2:5] == [
        "n     13/16  -       a  b   c  .   .  .   .  .   .  .   .  .   .  .   .  .",
        "  a default/a-rather-long-name-0  b default/a-rather-long-name-1",
        "  c default/a-rather-long-name-2",
    ]


def test_more_pods_than_letters_share_a_sign() -> None:
    special = {i: (DeviceState.USED, [f"p/{i}"]) for i in range(64)}
    line = grid_lines(chips("n", 64, special), NOW, None)[2]
    assert line.split()[3 + 60 :][:4] == ["8", "9", "#", "#"]
    assert line.endswith("9 p/61  # p/62  # p/63")


@given(
    st.integers(1, 64),
    st.sampled_from([0, 2, 4, 8]),
    st.integers(50, 120),
    st.dictionaries(st.integers(0, 63), st.tuples(st.sampled_from(DeviceState), st.integers(0, 5)), max_size=20),
)
def test_every_chip_has_a_cell_and_no_line_is_too_long(
    number: int, size: int, limit: int, special: dict[int, tuple[DeviceState, int]]
) -> None:
    states = {i: (state, [f"default/pod-{pod}"]) for i, (state, pod) in special.items()}
    devices = chips("node", number, states, size=size)
    lines = grid_lines(devices, NOW, limit)
    assert max(map(len, lines)) <= max(limit, 50)
    heads = [line[17:] for line in lines[: lines.index("")] if re.match(r"(Node  Free|\s+\d)", line)]
    numbers = [int(each) for line in heads for each in line.split() if each.isdecimal()]
    assert numbers[:number] == list(range(number))


@pytest.mark.parametrize(("terminal", "no_color"), [(True, ""), (True, "1"), (False, "")])
def test_colours_are_for_terminals(terminal: bool, no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "on_terminal", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    shown: list[str] = []
    monkeypatch.setattr("scheduler.cli.text.click.echo", lambda line, **_: shown.append(line))
    for line in grid_lines(chips("n", 2, {1: (DeviceState.UNHEALTHY, [])}), NOW, 80):
        text.echo(line)
    assert (ESCAPE in "".join(shown)) == (terminal and not no_color)
    plain = [re.sub(r"\x1b\[[0-9]*m", "", line) for line in shown]
    assert plain[2] == "n     1/2   -       .  !"


def test_text_of_users_does_not_reach_the_terminal_as_it_is() -> None:
    devices = chips("n\x1b[31m", 1, {0: (DeviceState.USED, ["ns/\x1b]0;title\x07"])})
    assert ESCAPE not in "".join(grid_lines(devices, NOW, 80))
