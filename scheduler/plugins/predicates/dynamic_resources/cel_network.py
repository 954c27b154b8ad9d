"""IP addresses and networks in CEL expressions, as Kubernetes has them (Go's ``net/netip``).

They travel as bytes of their canonical text, so ``==`` and ``string()`` are right.
"""

import ipaddress
import re
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_BROADCAST: Final = ipaddress.IPv4Address(2**32 - 1)


# --- addresses ---
def address(text: str) -> bytes:
    """An address as a CEL value. Raises ValueError."""
    return str(_parse(text)).encode()


def _parse(text: str) -> Address:
    """Addresses with a zone, and IPv6 addresses that stand for IPv4 ones, are none."""
    parsed = ipaddress.ip_address(text)
    if "%" in text or (isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None):
        raise ValueError(f"not an IP address: {text[:64]!r}")
    return parsed


def of_address(value: bytes) -> Address:
    """Raises ValueError where the value is no address."""
    return _parse(value.decode())


def is_canonical(text: str) -> bool:
    """Raises ValueError where the text is no address at all."""
    return str(_parse(text)) == text


def is_link_local_multicast(value: bytes) -> bool:
    packed = of_address(value).packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def is_link_local_unicast(value: bytes) -> bool:
    return of_address(value).is_link_local


def is_global_unicast(value: bytes) -> bool:
    """Private ones count."""
    parsed = of_address(value)
    others = parsed.is_unspecified, parsed.is_loopback, parsed.is_multicast, parsed.is_link_local, parsed == _BROADCAST
    return not any(others)


# --- networks ---
def network(text: str) -> bytes:
    """A network, or an address in one, with the length of the prefix, as a CEL value. Raises ValueError."""
    return _interface(text).with_prefixlen.encode()


def _interface(text: str) -> Interface:
    head, _, length = text.partition("/")
    _parse(head)
    if _LENGTH.fullmatch(length) is None:
        raise ValueError(f"not a network: {text[:64]!r}")
    return ipaddress.ip_interface(text)


def of_network(value: bytes) -> Interface:
    """Raises ValueError where the value is no network."""
    return _interface(value.decode())


def contains_address(value: bytes, other: bytes) -> bool:
    return of_address(other) in of_network(value).network


def contains_network(value: bytes, other: bytes) -> bool:
    outer, inner = of_network(value).network, of_network(other).network
    return inner.network_address in outer and inner.prefixlen >= outer.prefixlen


def masked(value: bytes) -> bytes:
    """The network without what the prefix does not cover."""
    return of_network(value).network.with_prefixlen.encode()


def prefix_length(value: bytes) -> int:
    return of_network(value).network.prefixlen
