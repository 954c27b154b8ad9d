"""The number of examples that property tests try."""

from typing import Final

from hypothesis import settings

FAST: Final = "fast"
"""The hypothesis profile of `make test-fast`."""
_SHARE: Final = 4


def examples(number: int) -> int:
    """Returns the number of examples: all of them, or a quarter in the fast run."""
    return max(1, number // _SHARE) if settings.get_current_profile_name() == FAST else number
