"""Compiles CEL selectors, and caches them by their text.

The CEL runtime is the package of the extra ``dra``. It is imported when the first selector is compiled; without it,
each selector yields an ExpressionError that names the extra.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError

if TYPE_CHECKING:
    from scheduler.plugins.predicates.dynamic_resources.expressions import Expression

NO_RUNTIME: Final = (
    "CEL selectors cannot be evaluated without the Python package cel-expr-python: install volcano-py with the extra "
    "dra, as in pip install 'volcano-py[dra]'"
)


@lru_cache(maxsize=1024)
def compiled(text: str) -> "Expression | ExpressionError":
    """Returns the compiled expression of a text, or the error."""
    try:
        from scheduler.plugins.predicates.dynamic_resources.expressions import Expression

        return Expression(text)
    except ExpressionError as error:
        return error
    except ImportError as error:  # the package is not installed, or does not work on this machine
        return ExpressionError(f"{NO_RUNTIME} ({error})")
