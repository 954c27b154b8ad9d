"""IP addresses and networks in CEL expressions, with the rules of Kubernetes (Go's ``net/netip``).

They are encoded as bytes of their canonical text, so that ``==`` and ``string()`` work.
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
    """Encodes an IP address. Raises ValueError."""
    return str(_parse(text)).encode()


def _parse(text: str) -> Address:
    """Parses an address. Raises ValueError, also for addresses with a zone and for IPv4-mapped IPv6 addresses."""
    parsed = ipaddress.ip_address(text)
    if "%" in text or (isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None):
        raise ValueError(f"not an IP address: {text[:64]!r}")
    return parsed


def of_address(value: bytes) -> Address:
    """Decodes an address. Raises ValueError."""
    return _parse(value.decode())


def is_canonical(text: str) -> bool:
    """Whether an address is in canonical form. Raises ValueError for other texts."""
    return str(_parse(text)) == text


def is_link_local_multicast(value: bytes) -> bool:
    packed = of_address(value).packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def is_link_local_unicast(value: bytes) -> bool:
    return of_address(value).is_link_local


def is_global_unicast(value: bytes) -> bool:
    """Whether an address is a global unicast address. Private addresses are, as in Go."""
    parsed = of_address(value)
    special = parsed.is_unspecified, parsed.is_loopback, parsed.is_multicast, parsed.is_link_local, parsed == _BROADCAST
    return not any(special)


# --- networks ---
def network(text: str) -> bytes:
    """Encodes a network, or an address with a prefix length. Raises ValueError."""
    return _interface(text).with_prefixlen.encode()


def _interface(text: str) -> Interface:
    head, _, length = text.partition("/")
    _parse(head)
    if _LENGTH.fullmatch(length) is None:
        raise ValueError(f"not a network: {text[:64]!r}")
    return ipaddress.ip_interface(text)


def of_network(value: bytes) -> Interface:
    """Decodes a network. Raises ValueError."""
    return _interface(value.decode())


def contains_address(value: bytes, other: bytes) -> bool:
    return of_address(other) in of_network(value).network


def contains_network(value: bytes, other: bytes) -> bool:
    outer, inner = of_network(value).network, of_network(other).network
    return inner.network_address in outer and inner.prefixlen >= outer.prefixlen


def masked(value: bytes) -> bytes:
    """The network with all bits beyond the prefix set to 0."""
    return of_network(value).network.with_prefixlen.encode()


def prefix_length(value: bytes) -> int:
    return of_network(value).network.prefixlen
