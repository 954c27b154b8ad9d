"""Caches of functions that parse texts of users: bounded in characters, not only in entries.

A user chooses the length of an annotation. Thousands of entries with long texts would fill the memory, although their
number is limited.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
CHARACTERS: Final = 2**21
"""The most characters in the texts of one cache."""
OF_NODES: Final = 2**24
"""The same for annotations that device plugins write: those of 10,000 nodes."""


def cache_texts(
    entries: int, characters: int = CHARACTERS
) -> Callable[[Callable[Concatenate[T, P], R]], Callable[Concatenate[T, P], R]]:
    """Decorator: an ``lru_cache`` for a function whose first argument is a text, or any other value.

    The cache is emptied when ``characters`` characters were added to it since it was last empty. A call that finds its
    answer takes the time of an ``lru_cache``: only new texts are measured. Exceptions are not cached.
    """

    def decorate(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
        added = 0

        @wraps(function)
        def measured(text: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal added
            result = function(text, *args, **kwargs)
            added += len(text) if isinstance(text, str) else len(str(text))
            if added > characters:
                cached.cache_clear()
                added = 0
            return result

        cached = lru_cache(maxsize=entries)(measured)
        return cast(Callable[Concatenate[T, P], R], cached)

    return decorate
