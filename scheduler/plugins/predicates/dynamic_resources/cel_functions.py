"""Declares the functions that Kubernetes adds to CEL: for quantities, versions, addresses, networks and lists, and for
regular expressions.

The CEL library does not allow new overloads of its own functions, so lists have no ``indexOf`` and ``lastIndexOf``, and
it does not accept durations as results.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import re2
from cel_expr_python import cel

from scheduler.framework.patterns import options
from scheduler.plugins.predicates.dynamic_resources import cel_values as values

VALUE: Final = cel.Type.BYTES
"""The CEL type of quantities, versions, addresses and networks."""
_TEXT, _INTEGER, _REAL, _TRUTH, _ANY = cel.Type.STRING, cel.Type.INT, cel.Type.DOUBLE, cel.Type.BOOL, cel.Type.DYN
_LIST: Final = cel.Type.List(_ANY)
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_BROADCAST: Final = ipaddress.IPv4Address(2**32 - 1)
_Overload = tuple[cel.Type, list[cel.Type], Callable[..., Any]]
"""Result type, parameter types, implementation."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def functions() -> list[cel.FunctionDecl]:
    """Returns the declarations of all functions."""
    return [*_of_values(), *_of_addresses(), *_of_lists(), *_of_patterns()]


def _of_values() -> list[cel.FunctionDecl]:
    nano, parts = values.nano_of, values.version_parts
    return [
        _function("quantity", (VALUE, [_TEXT], values.quantity)),
        _function("isQuantity", (_TRUTH, [_TEXT], _is(values.quantity))),
        _function("sign", (_INTEGER, [VALUE], values.sign)),
        _member("isInteger", (_TRUTH, [VALUE], values.is_integer)),
        _member("asInteger", (_INTEGER, [VALUE], values.as_integer)),
        _member("asApproximateFloat", (_REAL, [VALUE], lambda value: nano(value) / values.UNIT)),
        _member(
            "add",
            (VALUE, [VALUE, VALUE], lambda a, b: values.of_nano(nano(a) + nano(b))),
            (VALUE, [VALUE, _INTEGER], lambda a, b: values.of_nano(nano(a) + b * values.UNIT)),
        ),
        _member(
            "sub",
            (VALUE, [VALUE, VALUE], lambda a, b: values.of_nano(nano(a) - nano(b))),
            (VALUE, [VALUE, _INTEGER], lambda a, b: values.of_nano(nano(a) - b * values.UNIT)),
        ),
        _function("semver", (VALUE, [_TEXT], values.version), (VALUE, [_TEXT, _TRUTH], values.version)),
        _function("isSemver", (_TRUTH, [_TEXT], _is(values.version)), (_TRUTH, [_TEXT, _TRUTH], _is(values.version))),
        _member("major", (_INTEGER, [VALUE], lambda value: parts(value)[0])),
        _member("minor", (_INTEGER, [VALUE], lambda value: parts(value)[1])),
        _member("patch", (_INTEGER, [VALUE], lambda value: parts(value)[2])),
        _member("compareTo", (_INTEGER, [VALUE, VALUE], values.compare)),
        _member("isLessThan", (_TRUTH, [VALUE, VALUE], lambda a, b: values.compare(a, b) < 0)),
        _member("isGreaterThan", (_TRUTH, [VALUE, VALUE], lambda a, b: values.compare(a, b) > 0)),
    ]


def _of_addresses() -> list[cel.FunctionDecl]:
    return [
        cel.FunctionDecl(
            "ip",
            [
                _overload("ip", (VALUE, [_TEXT], _address)),
                _overload("ip_of", (VALUE, [VALUE], _ip_of_network), member=True),
            ],
        ),
        _function("isIP", (_TRUTH, [_TEXT], _is(_address))),
        _function("ip.isCanonical", (_TRUTH, [_TEXT], _is_canonical)),
        _member("family", (_INTEGER, [VALUE], lambda value: _decoded_address(value).version)),
        _member("isUnspecified", (_TRUTH, [VALUE], lambda value: _decoded_address(value).is_unspecified)),
        _member("isLoopback", (_TRUTH, [VALUE], lambda value: _decoded_address(value).is_loopback)),
        _member("isLinkLocalMulticast", (_TRUTH, [VALUE], _is_link_local_multicast)),
        _member("isLinkLocalUnicast", (_TRUTH, [VALUE], lambda value: _decoded_address(value).is_link_local)),
        _member("isGlobalUnicast", (_TRUTH, [VALUE], _is_global_unicast)),
        _function("cidr", (VALUE, [_TEXT], _network)),
        _function("isCIDR", (_TRUTH, [_TEXT], _is(_network))),
        _member(
            "containsIP",
            (_TRUTH, [VALUE, VALUE], _contains_address),
            (_TRUTH, [VALUE, _TEXT], lambda value, text: _contains_address(value, _address(text))),
        ),
        _member(
            "containsCIDR",
            (_TRUTH, [VALUE, VALUE], _contains_network),
            (_TRUTH, [VALUE, _TEXT], lambda value, text: _contains_network(value, _network(text))),
        ),
        _member("masked", (VALUE, [VALUE], lambda value: _decoded_network(value).network.with_prefixlen.encode())),
        _member("prefixLength", (_INTEGER, [VALUE], lambda value: _decoded_network(value).network.prefixlen)),
    ]


def _is(parse: Callable[..., object]) -> Callable[..., bool]:
    """Returns a function that tests whether ``parse`` accepts its arguments."""

    def test(*arguments: object) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return test


# --- addresses and networks, with the rules of Kubernetes (Go's net/netip) ---
# They are encoded as bytes of their canonical text, so that ``==`` and ``string()`` work.
def _address(text: str) -> bytes:
    """Encodes an IP address. Raises ValueError."""
    return str(_parsed_address(text)).encode()


def _parsed_address(text: str) -> Address:
    """Parses an address. Raises ValueError, also for addresses with a zone and for IPv4-mapped IPv6 addresses."""
    parsed = ipaddress.ip_address(text)
    if "%" in text or (isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None):
        raise ValueError(f"not an IP address: {text[:64]!r}")
    return parsed


def _decoded_address(value: bytes) -> Address:
    """Decodes an address. Raises ValueError."""
    return _parsed_address(value.decode())


def _is_canonical(text: str) -> bool:
    """Whether an address is in canonical form. Raises ValueError for other texts."""
    return str(_parsed_address(text)) == text


def _is_link_local_multicast(value: bytes) -> bool:
    packed = _decoded_address(value).packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(value: bytes) -> bool:
    """Whether an address is a global unicast address. Private addresses are, as in Go."""
    parsed = _decoded_address(value)
    special = parsed.is_unspecified, parsed.is_loopback, parsed.is_multicast, parsed.is_link_local, parsed == _BROADCAST
    return not any(special)


def _network(text: str) -> bytes:
    """Encodes a network, or an address with a prefix length. Raises ValueError."""
    return _parsed_network(text).with_prefixlen.encode()


def _parsed_network(text: str) -> Network:
    head, _, length = text.partition("/")
    _parsed_address(head)
    if _LENGTH.fullmatch(length) is None:
        raise ValueError(f"not a network: {text[:64]!r}")
    return ipaddress.ip_interface(text)


def _decoded_network(value: bytes) -> Network:
    """Decodes a network. Raises ValueError."""
    return _parsed_network(value.decode())


def _ip_of_network(value: bytes) -> bytes:
    return str(_decoded_network(value).ip).encode()


def _contains_address(value: bytes, other: bytes) -> bool:
    return _decoded_address(other) in _decoded_network(value).network


def _contains_network(value: bytes, other: bytes) -> bool:
    outer, inner = _decoded_network(value).network, _decoded_network(other).network
    return inner.network_address in outer and inner.prefixlen >= outer.prefixlen


# --- lists ---
def _of_lists() -> list[cel.FunctionDecl]:
    return [
        _member("isSorted", (_TRUTH, [_LIST], lambda items: all(a <= b for a, b in pairwise(_plain(items))))),
        _member("sum", (_ANY, [_LIST], _sum)),
        _member("min", (_ANY, [_LIST], lambda items: min(_plain(items)))),
        _member("max", (_ANY, [_LIST], lambda items: max(_plain(items)))),
    ]


def _plain(items: Sequence[Any]) -> list[Any]:
    return [item.plain_value() if isinstance(item, cel.Value) else item for item in items]


def _sum(items: Sequence[Any]) -> Any:
    """The sum of a list; 0 for an empty one."""
    total, *others = _plain(items) or [0]
    for item in others:
        total = total + item
    return total


# --- regular expressions ---
def _of_patterns() -> list[cel.FunctionDecl]:
    texts = cel.Type.List(_TEXT)
    return [
        _member("find", (_TEXT, [_TEXT, _TEXT], lambda text, pattern: next(_matches(text, pattern), ""))),
        _member(
            "findAll",
            (texts, [_TEXT, _TEXT], lambda text, pattern: list(_matches(text, pattern))),
            (texts, [_TEXT, _TEXT, _INTEGER], _find_all),
        ),
    ]


def _find_all(text: str, pattern: str, limit: int) -> list[str]:
    """Returns at most ``limit`` matches; all if ``limit`` is negative."""
    return list(islice(_matches(text, pattern), limit if limit >= 0 else None))


def _matches(text: str, pattern: str) -> Iterator[str]:
    """Yields the matches in order. As in Go, an empty match directly after another match is skipped."""
    end = -1
    for match in re2.compile(pattern, options()).finditer(text):
        if match.end() > match.start() or match.start() != end:
            yield match.group()
        end = match.end()


# --- declarations ---
def _overload(id_: str, overload: _Overload, *, member: bool = False) -> cel.Overload:
    result, parameters, implementation = overload
    return cel.Overload(id_, return_type=result, parameters=parameters, is_member=member, impl=implementation)


def _function(name: str, *overloads: _Overload, member: bool = False) -> cel.FunctionDecl:
    listed = [_overload(f"{name}_{i}", overload, member=member) for i, overload in enumerate(overloads)]
    return cel.FunctionDecl(name, listed)


def _member(name: str, *overloads: _Overload) -> cel.FunctionDecl:
    return _function(name, *overloads, member=True)
