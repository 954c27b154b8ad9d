"""Selectors are compiled and evaluated once, and kept as long as there is room."""

from typing import Any

import msgspec
import pytest

from scheduler.api.dra import ResourceSlice
from scheduler.plugins.predicates.dynamic_resources import cel_selectors
from scheduler.plugins.predicates.dynamic_resources.budget import Budget, OverBudgetError, SessionBudget
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError
from scheduler.plugins.predicates.dynamic_resources.devices import Slice, SlicedDevice
from tests.device_builders import device, resource_slice

MODEL = 'device.attributes["gpu.example.com"].model'


def devices(*attributes: dict[str, Any]) -> tuple[SlicedDevice, ...]:
    made = [device(f"d{i}", each) for i, each in enumerate(attributes)]
    return Slice(msgspec.convert(resource_slice(made, "n"), ResourceSlice)).devices


def budget() -> Budget:
    return Budget(None, SessionBudget(), "default")


def test_devices_that_differ_in_what_the_expression_does_not_read_are_evaluated_once() -> None:
    selectors, spent = Selectors(), budget()

    found = [
        selectors.result(f'{MODEL} == "a"', each, spent)
        for each in devices({"model": "a", "serial": 1}, {"model": "a", "serial": 2}, {"model": "b"}, {"serial": 3})
    ]

    assert found[:3] == [True, True, False]
    assert isinstance(found[3], ExpressionError)
    assert spent.evaluations == 4, "one of each value, and one more of the device without: an error is evaluated twice"


def test_equal_values_of_other_types_are_told_apart() -> None:
    selectors, spent = Selectors(), budget()

    one, true = devices({"model": 1}, {"model": True})

    assert selectors.result(f"{MODEL} == 1", one, spent) is True
    assert selectors.result(f"{MODEL} == 1", true, spent) is not True


def test_an_expression_that_reads_a_domain_is_evaluated_for_each_combination_of_values() -> None:
    selectors, spent = Selectors(), budget()
    whole = 'cel.bind(all, device.attributes["gpu.example.com"], all.model == "a")'

    for each in devices({"model": "a", "serial": 1}, {"model": "a", "serial": 2}, {"model": "a", "serial": 1}):
        assert selectors.result(whole, each, spent) is True

    assert spent.evaluations == 2


def test_the_selectors_not_used_for_longest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel_selectors, "MAX_BYTES", 30_000)
    selectors, spent = Selectors(), budget()
    (only,) = devices({"model": "a"})
    texts = [f'{MODEL} != "{i}"' for i in range(8)]

    for text in texts:
        selectors.result(text, only, spent)
        selectors.result(texts[0], only, spent)

    assert 1 < len(selectors) < 8
    before = spent.evaluations
    selectors.result(texts[0], only, spent)
    selectors.result(texts[7], only, spent)
    assert spent.evaluations == before
    selectors.result(texts[1], only, spent)
    assert spent.evaluations == before + 1


def test_what_exceeds_the_budget_is_not_evaluated_and_not_kept() -> None:
    selectors = Selectors()
    (only,) = devices({"model": "a"})
    used_up = budget()
    with pytest.raises(OverBudgetError):
        used_up.spend(10**9)

    with pytest.raises(OverBudgetError):
        selectors.result("true", only, used_up)

    assert len(selectors) == 0
    assert selectors.result("true", only, budget()) is True
