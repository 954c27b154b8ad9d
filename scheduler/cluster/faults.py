"""What decoding raises, and what it says of an object that cannot be decoded: which field is wrong, and why."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def fault_of(error: Exception) -> tuple[str, str]:
    """The field (``spec.minMember``; "" for the object itself), and what is wrong with it."""
    problem, _, path = str(error).partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix("."), problem
