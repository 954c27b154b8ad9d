"""Addresses to listen on, as flags give them."""


class AddressError(ValueError):
    """A text is not an address to listen on."""


def parse_address(text: str) -> tuple[str | None, int]:
    """``:8080``, ``127.0.0.1:8080``, ``[::1]:8080`` as host (None: all) and port. Raises AddressError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise AddressError(f"{text!r} is not an address like :8080 or 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]") or None, int(port)
