"""CEL expressions: their results for devices, and their errors."""

from typing import Any

import pytest

from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError, quantity, version
from scheduler.plugins.predicates.dynamic_resources.expressions import MAX_LENGTH, Expression

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
        'sets.contains([1, 2, 3], [2]) && !sets.intersects(["a"], ["b"]) && sets.equivalent([1], [1, 1])',
    ],
)
def test_an_expression_that_is_true_for_a_device_selects_it(expression: str) -> None:
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
def test_quantities_are_compared_by_value(expression: str) -> None:
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
def test_versions_are_compared_by_the_rules_of_semantic_versioning(expression: str) -> None:
    assert selects(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f"{MEMORY}.asApproximateFloat() > 1",
        f"{GPU}.index + 1 < 4.5 && size({GPU}.model) >= 3.5 && 2u > 1 && 2.5 >= 2 && 1 <= 1.5",
        '1 < 2 && 1.0 < 1.5 && 1u < 2u && "a" < "b" && false < true && duration("1s") < duration("1m")',
    ],
)
def test_numbers_of_different_types_can_be_compared(expression: str) -> None:
    assert selects(expression)


@pytest.mark.parametrize(
    "expression",
    [
        '"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == ""',
        '"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]+", 1) == ["1"]',
        '"ab".findAll("x*") == ["", "", ""] && "xxa".findAll("x*") == ["xx", ""] && "a".findAll("a", 0) == []',
        f'{GPU}.model.find("[0-9]+") == "100"',
        '[1, 2, 2].isSorted() && !["b", "a"].isSorted() && [].isSorted()',
        "[1, 3].sum() == 4 && [1.5, 1.0].sum() == 2.5 && [].sum() == 0",
        '[1, 3].min() == 1 && ["a", "b"].max() == "b"',
        "[3, 1, 2].sort() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2]",
        "[1, 1].distinct() == [1] && lists.range(2) == [0, 1] && [1, 2].reverse() == [2, 1]",
        "[1, 2].all(i, v, v > i) && [1, 2].transformList(i, v, v * 2) == [2, 4]",
    ],
)
def test_list_and_regular_expression_functions_agree_with_kubernetes(expression: str) -> None:
    assert selects(expression)


@pytest.mark.parametrize(
    "expression",
    [
        'ip("127.0.0.1").family() == 4 && ip("::1").family() == 6 && string(ip("2001:DB8::0")) == "2001:db8::"',
        'ip("2001:db8:0:0::1") == ip("2001:db8::1") && ip("10.0.0.1") != ip("10.0.0.2")',
        'ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD")',
        'isIP("10.0.0.1") && !isIP("10.0.0.256") && !isIP("010.0.0.1") && !isIP("fe80::1%eth0")',
        '!isIP("::ffff:1.2.3.4") && !isIP("10.0.0.0/8") && !isIP("")',
        'ip("0.0.0.0").isUnspecified() && ip("::1").isLoopback() && ip("169.254.1.1").isLinkLocalUnicast()',
        'ip("224.0.0.1").isLinkLocalMulticast() && !ip("224.0.1.1").isLinkLocalMulticast()',
        'ip("ff02::1").isLinkLocalMulticast() && !ip("fd00::1").isLinkLocalMulticast()',
        'ip("192.168.0.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast()',
        '!ip("ff00::1").isGlobalUnicast() && ip("2001:db8::abcd").isGlobalUnicast()',
        'cidr("192.168.0.0/24").containsIP("192.168.0.1") && !cidr("192.168.0.0/24").containsIP(ip("192.168.1.1"))',
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))',
        '!cidr("10.0.0.0/8").containsIP("::1") && !cidr("::/0").containsCIDR("10.0.0.0/8")',
        'cidr("192.168.0.1/24").ip() == ip("192.168.0.1") && cidr("192.168.0.1/24").prefixLength() == 24',
        'cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24") && string(cidr("::1/128")) == "::1/128"',
        'isCIDR("::1/128") && !isCIDR("10.0.0.0/33") && !isCIDR("10.0.0.0/255.0.0.0") && !isCIDR("10.0.0.0/08")',
        '!isCIDR("10.0.0.1")',
    ],
)
def test_address_and_network_functions_agree_with_kubernetes(expression: str) -> None:
    assert selects(expression)


def test_a_domain_without_values_of_the_device_is_empty() -> None:
    assert not selects('has(device.attributes["other.example.com"].model)')
    assert not selects('"other.example.com" in device.attributes')
    with pytest.raises(ExpressionError, match="model"):
        selects('device.attributes["other.example.com"].model == "x"')


def test_an_error_in_one_operand_is_ignored_if_the_other_decides() -> None:
    assert selects(f"{GPU}.nothing == 1 || device.driver == 'gpu.example.com'")
    assert selects('device.attributes["other.example.com"].x == 1 || true')


@pytest.mark.parametrize(
    "expression",
    ["device.driver ==", "device.driver == 3", "device.uid == 'x'", '"a"', "1 + 1", "", "'\ud800' == ''", "(" * 99],
)
def test_an_expression_that_does_not_compile_raises_the_reason(expression: str) -> None:
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
        '"a".find("(") == ""',
        '[1, "a"].max() == 1',
        "[].min() == 1",
        'ip("10.0.0").family() == 4',
        'quantity("1").family() == 4',
    ],
)
def test_an_expression_that_fails_for_a_device_raises_the_reason(expression: str) -> None:
    with pytest.raises(ExpressionError, match="CEL runtime error"):
        selects(expression)


def test_an_expression_with_too_many_iterations_fails() -> None:
    numbers = "[" + ",".join(["1"] * 300) + "]"
    with pytest.raises(ExpressionError):
        selects(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c > 0)))")


def test_an_expression_longer_than_the_api_allows_is_not_compiled() -> None:
    with pytest.raises(ExpressionError, match=str(MAX_LENGTH)):
        Expression(" " * MAX_LENGTH + "true")
