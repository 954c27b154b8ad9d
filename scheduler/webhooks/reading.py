"""The object of a request as a typed struct, or the sentence that says why it is none.

An object may be of any shape: the simulator reads manifests that no API server has looked at.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from scheduler.webhooks.contract import ClusterView, Json, Request, Settings

T = TypeVar("T", bound=msgspec.Struct)
Check = Callable[[Request, ClusterView, Settings], str]
_PLACE: Final = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)


class UnreadableError(ValueError):
    """A field is not of its type; the message names it."""


def read(raw: Json, struct: type[T]) -> T:
    """Raises UnreadableError."""
    try:
        return msgspec.convert(without_nulls(raw), struct)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        problem, place = (found[1], found[2]) if found else (str(error), "")
        raise UnreadableError(f"{place or 'the object'}: {problem[:1].lower()}{problem[1:]}") from None
    except RecursionError:
        raise UnreadableError("the object is nested too deeply") from None


def without_nulls(value: Any) -> Any:
    """A member that is null is as good as absent, as it is for Go."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def validator(struct: type[T]) -> Callable[[Callable[[T, Request, ClusterView, Settings], str]], Check]:
    """Make a validator of a function that wants the new object decoded; what cannot be decoded is refused."""

    def decorate(function: Callable[[T, Request, ClusterView, Settings], str]) -> Check:
        def validate(request: Request, cluster: ClusterView, settings: Settings) -> str:
            try:
                obj = read(request.object, struct)
            except UnreadableError as error:
                return str(error)
            return function(obj, request, cluster, settings)

        return validate

    return decorate
