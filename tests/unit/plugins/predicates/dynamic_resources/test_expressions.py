"""CEL expressions: what they say of a device, and why they cannot be asked."""

from typing import Any

import pytest

from scheduler.plugins.predicates.dynamic_resources.cel_values import quantity, version
from scheduler.plugins.predicates.dynamic_resources.expressions import LONGEST, Expression, ExpressionError

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "gpu.example.com": {"model": "a100", "index": 3, "healthy": True, "driverVersion": version("1.10.0-rc.1")},
    "numa.example.com": {"node": 1},
}
CAPACITY = {"gpu.example.com": {"memory": quantity("40Gi")}}
GPU, MEMORY = 'device.attributes["gpu.example.com"]', 'device.capacity["gpu.example.com"].memory'


def selects(expression: str, *, shared: bool = False) -> bool:
    return Expression(expression).selects("gpu.example.com", shared, ATTRIBUTES, CAPACITY)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        f'{GPU}.model == "a100" && {GPU}.index > 2',
        f"{GPU}.index == 3.0",
        f'{GPU}.model in ["a100", "h100"]',
        f'{GPU}.model.matches("^a[0-9]+$") && {GPU}.model.upperAscii() == "A100"',
        f"{GPU}.healthy",
        "!device.allowMultipleAllocations",
        'device.attributes["numa.example.com"].node == 1',
        f"cel.bind(gpu, {GPU}, gpu.healthy && gpu.index == 3)",
        f'{GPU}.?other.orValue("none") == "none"',
        f'["a100", "h100"].exists(model, model == {GPU}.model)',
        'sets.contains([1, 2, 3], [2.0]) && !sets.intersects(["a"], ["b"]) && sets.equivalent([1], [1, 1])',
    ],
)
def test_an_expression_that_is_true_of_a_device_selects_it(expression: str) -> None:
    assert selects(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f'{MEMORY}.compareTo(quantity("40Gi")) == 0',
        f'{MEMORY} == quantity("40960Mi")',
        f'{MEMORY}.isGreaterThan(quantity("40G")) && {MEMORY}.isLessThan(quantity("41Gi"))',
        'quantity("50k").add(20).sub(quantity("100k")).sub(-50000) == quantity("20")',
        'quantity("50M").compareTo(quantity("50Mi")) == -1 && sign(quantity("-1")) == -1',
        'quantity("3Mi").asInteger() == 3145728 && !quantity("1500m").isInteger()',
        'quantity("500m").asApproximateFloat() == 0.5',
        'isQuantity("1.5G") && !isQuantity("200K")',
    ],
)
def test_quantities_compare_by_what_they_amount_to(expression: str) -> None:
    assert selects(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f'{GPU}.driverVersion.isGreaterThan(semver("1.9.9"))',
        f'{GPU}.driverVersion.isLessThan(semver("1.10.0"))',
        f'{GPU}.driverVersion.compareTo(semver("1.10.0-rc.1")) == 0',
        'semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-alpha.beta"))',
        'semver("1.0.0-alpha").isLessThan(semver("1.0.0-alpha.1"))',
        'semver("1.0.0-2").isLessThan(semver("1.0.0-10"))',
        'semver("1.2.3+build") == semver("1.2.3")',
        'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3',
        'semver("v1.2", true) == semver("1.2.0") && semver("01.02.03", true) == semver("1.2.3")',
        'isSemver("1.2.3") && !isSemver("v1.2") && isSemver("v1.2", true) && !isSemver("1.0-rc", true)',
    ],
)
def test_versions_compare_by_the_rules_of_semantic_versions(expression: str) -> None:
    assert selects(expression)


def test_a_domain_of_which_the_device_has_nothing_is_empty() -> None:
    assert not selects('has(device.attributes["other.example.com"].model)')
    assert not selects('"other.example.com" in device.attributes')
    with pytest.raises(ExpressionError, match="model"):
        selects('device.attributes["other.example.com"].model == "x"')


def test_an_error_in_one_part_does_not_matter_where_the_other_decides() -> None:
    assert selects(f"{GPU}.nothing == 1 || device.driver == 'gpu.example.com'")
    assert selects('device.attributes["other.example.com"].x == 1 || true')


@pytest.mark.parametrize(
    "expression",
    ["device.driver ==", "device.driver == 3", "device.uid == 'x'", '"a"', "1 + 1", "", "'\ud800' == ''", "(" * 99],
)
def test_an_expression_that_does_not_compile_says_so(expression: str) -> None:
    with pytest.raises(ExpressionError, match="CEL compile error"):
        Expression(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f"{GPU}.nothing == 1",
        f"{GPU}.model",
        f'{GPU}.model.compareTo(quantity("1")) == 0',
        f'{GPU}.driverVersion.compareTo(quantity("1")) == 0',
        'quantity("Three") == quantity("3")',
        'semver("1.0") == semver("1.0.0")',
        'quantity("1500m").asInteger() == 1',
    ],
)
def test_an_expression_that_errs_on_a_device_says_so(expression: str) -> None:
    with pytest.raises(ExpressionError, match="CEL runtime error"):
        selects(expression)


def test_an_expression_without_end_is_given_up() -> None:
    numbers = "[" + ",".join(["1"] * 300) + "]"
    with pytest.raises(ExpressionError):
        selects(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c > 0)))")


def test_an_expression_longer_than_the_api_allows_is_not_read() -> None:
    with pytest.raises(ExpressionError, match=str(LONGEST)):
        Expression(" " * LONGEST + "true")
