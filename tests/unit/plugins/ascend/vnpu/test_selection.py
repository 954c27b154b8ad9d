"""The choice of a chip: worked examples, and what holds for every node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.ascend.vnpu.models import MODELS, NO, NULL, YES, ChipModel, CoreRequest
from scheduler.plugins.ascend.vnpu.selection import WHOLE, DividedNode, PartUse, node_of, select, with_uses

P310 = MODELS["Ascend310P"]


def part(
    model: ChipModel, chip: int, name: str, *, confirmed: bool = True, chosen: bool = False, group: int = -1
) -> PartUse:
    template = model.named(name)
    assert template is not None
    return PartUse(chip, name, template.cores, template.cpus, template.dvpp, confirmed, chosen, group)


def chosen(node: DividedNode, cores: int, *, high: bool = False, dvpp: str = NULL) -> str:
    choice = select(MODELS[node.model], node, CoreRequest(cores, high, dvpp))
    return "" if choice is None else choice.annotation


def p310(*uses: PartUse, chips: int = 1) -> DividedNode:
    return node_of(P310, 8, range(chips), uses)


@pytest.mark.parametrize(
    ("cores", "high", "dvpp", "expected"),
    [
        (1, False, NULL, "0-vir01"),
        (2, False, NULL, "0-vir02_1c"),
        (2, True, NULL, "0-vir02"),
        (3, False, NULL, ""),
        (4, False, NULL, "0-vir04_3c"),
        (4, True, NULL, "0-vir04"),
        (4, False, YES, "0-vir04_4c_dvpp"),
        (4, False, NO, "0-vir04_3c_ndvpp"),
        (8, False, NULL, "0"),
        (16, False, NULL, "0,1"),
        (24, False, NULL, ""),
    ],
)
def test_templates_of_310p(cores: int, high: bool, dvpp: str, expected: str) -> None:
    assert chosen(p310(chips=2), cores, high=high, dvpp=dvpp) == expected


@pytest.mark.parametrize(
    ("model", "cores", "dvpp", "expected"),
    [
        ("910B1", 6, NULL, "0-vir06_1c_16g"),
        ("910B1", 12, NULL, "0-vir12_3c_32g"),
        ("910B1", 25, NULL, "0"),
        ("910B2C", 6, NULL, "0-vir06_1c_16g"),
        ("910B3", 5, NULL, "0-vir05_1c_16g"),
        ("910B3", 10, NULL, "0-vir10_3c_32g"),
        ("910B4", 5, NULL, "0-vir05_1c_8g"),
        ("910B4", 10, YES, "0-vir10_4c_16g_m"),
        ("910B4", 10, NO, "0-vir10_3c_16g_nm"),
        ("910B4", 10, NULL, "0-vir10_3c_16g"),
        ("910B4-1", 10, NULL, "0-vir10_3c_32g"),
        ("Ascend910A3-20", 5, NULL, "0-vir05_1c_16g"),
        ("Ascend910A3-24", 12, NULL, "0-vir12_3c_32g"),
    ],
)
def test_templates_of_910(model: str, cores: int, dvpp: str, expected: str) -> None:
    size = min(MODELS[model].cores)
    assert chosen(node_of(MODELS[model], size, [0], []), cores, dvpp=dvpp) == expected


def test_the_chip_with_the_fewest_free_cores_is_divided_first() -> None:
    node = p310(part(P310, 1, "vir04_3c"), chips=3)
    assert chosen(node, 2) == "1-vir02_1c"
    assert chosen(node, 8) == "0"
    assert chosen(node, 16) == "0,2"
    assert chosen(node, 24) == ""


def test_too_few_cpus_lead_to_the_smaller_template() -> None:
    node = p310(part(P310, 0, "vir04"))
    choice = select(P310, node, CoreRequest(4, high=True))
    assert choice is not None
    assert (choice.annotation, choice.downgraded) == ("0-vir04_3c", True)


def test_a_chip_whose_virtual_npu_is_not_confirmed_gets_no_other_one() -> None:
    node = p310(part(P310, 0, "vir01", confirmed=False))
    assert chosen(node, 1) == ""
    assert chosen(p310(part(P310, 0, "vir01", confirmed=False), chips=2), 1) == "1-vir01"


def test_in_one_session_a_chip_gets_virtual_npus_of_one_template() -> None:
    node = p310(part(P310, 0, "vir04_3c", confirmed=False, chosen=True))
    assert chosen(node, 4) == "0-vir04_3c"
    assert chosen(node, 2) == ""
    assert chosen(p310(part(P310, 0, "vir04_3c", confirmed=False, chosen=True), chips=2), 2) == "1-vir02_1c"


@pytest.mark.parametrize(
    ("there", "dvpp", "fits"),
    [
        ("vir04_4c_dvpp", YES, False),
        ("vir04_4c_dvpp", NULL, False),
        ("vir04_4c_dvpp", NO, True),
        ("vir04_3c", YES, False),
        ("vir04_3c", NULL, True),
        ("vir04_3c_ndvpp", YES, True),
        ("vir04_3c_ndvpp", NULL, True),
    ],
)
def test_the_image_processor_is_given_away_once(there: str, dvpp: str, fits: bool) -> None:
    assert bool(chosen(p310(part(P310, 0, there)), 4, dvpp=dvpp)) is fits


@pytest.mark.parametrize(("groups", "four", "two", "one"), [(2, True, True, True), (3, False, True, True)])
def test_a_310p_chip_has_at_most_four_groups(groups: int, four: bool, two: bool, one: bool) -> None:
    node = p310(*(part(P310, 0, "vir01", group=i) for i in range(groups)))
    assert (bool(chosen(node, 4)), bool(chosen(node, 2)), bool(chosen(node, 1))) == (four, two, one)


def test_a_310p_chip_with_four_groups_gets_single_cores_only() -> None:
    node = p310(*(part(P310, 0, "vir01", group=i) for i in range(4)))
    assert (chosen(node, 2), chosen(node, 1)) == ("", "0-vir01")


@st.composite
def requests(draw: st.DrawFn, model: ChipModel) -> CoreRequest:
    size = min(model.cores)
    cores = draw(st.sampled_from([*model.requests, size, 2 * size]))
    return CoreRequest(cores, draw(st.booleans()), draw(st.sampled_from([YES, NO, NULL])))


@given(data=st.data(), name=st.sampled_from(sorted(MODELS)), confirmed=st.booleans())
def test_chips_never_give_more_than_they_have(data: st.DataObject, name: str, confirmed: bool) -> None:
    """The property holds for any requests in any order, and also if virtual NPUs are confirmed in between."""
    model = MODELS[name]
    size = min(model.cores)
    given_away: list[PartUse] = []
    for _ in range(data.draw(st.integers(0, 30))):
        node = node_of(model, size, range(3), given_away)
        request = data.draw(requests(model))
        choice = select(model, node, request)
        if choice is None:
            continue
        assert sum(use.cores for use in choice.uses) == request.cores
        assert with_uses(node, choice.uses) == node_of(model, size, range(3), [*given_away, *choice.uses])
        given_away += [use._replace(confirmed=confirmed, chosen=not confirmed) for use in choice.uses]
    for chip in range(3):
        here = [use for use in given_away if use.chip == chip]
        assert sum(use.cores for use in here) <= size
        assert sum(use.cpus for use in here) <= model.cpus
        assert sum(use.dvpp == YES for use in here) <= 1
        assert not {YES, NULL} <= {use.dvpp for use in here if use.template != WHOLE}
        assert len(here) <= 1 or all(use.template != WHOLE for use in here)
        assert confirmed or len({use.template for use in here}) <= 1


@given(data=st.data())
def test_the_order_of_what_pods_have_does_not_matter(data: st.DataObject) -> None:
    pool = [part(P310, chip, t.name, group=chip) for chip in range(2) for t in P310.templates]
    uses = data.draw(st.lists(st.sampled_from(pool), max_size=6))
    shuffled = data.draw(st.permutations(uses))
    assert node_of(P310, 8, range(2), uses) == node_of(P310, 8, [1, 0], shuffled)
