"""Decodes the object of a request into a typed struct, with an error that names the field.

An object may have any shape: ``simulate`` reads manifests that no API server has validated.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from scheduler.api.reasons import field_and_problem
from scheduler.webhooks.contract import (
    AdmissionRequest,
    ClusterView,
    Json,
    Operation,
    ValidationResult,
    WebhookSettings,
)

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R", str, str | ValidationResult)


class DecodingError(ValueError):
    """A field has the wrong type; the message names the field."""


def decode(raw: Json, struct: type[T]) -> T:
    """Decodes an object. Raises DecodingError."""
    try:
        return msgspec.convert(without_nulls(raw), struct)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise DecodingError(f"{field or 'the object'}: {problem[:1].lower()}{problem[1:]}") from None
    except RecursionError:
        raise DecodingError("the object is nested too deeply") from None


def without_nulls(value: Any) -> Any:
    """Removes members that are null, which Go's decoder treats as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


Decoded = Callable[[T, AdmissionRequest, ClusterView, WebhookSettings], R]
"""A validator that takes the decoded object as well."""
Raw = Callable[[AdmissionRequest, ClusterView, WebhookSettings], R | str]


def validator(struct: type[T], *, of_spec: bool = False) -> Callable[[Decoded[T, R]], Raw[R]]:
    """A decorator: decodes the new object for a validator, and refuses an object that cannot be decoded.

    ``of_spec``: the rules concern the spec only, and an update that does not change the spec is accepted. So an object
    whose stored spec is invalid can still be labelled, and its finalizers removed.
    """

    def decorate(function: Decoded[T, R]) -> Raw[R]:
        def validate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> R | str:
            is_update = request.operation is Operation.UPDATE
            if of_spec and is_update and request.old.get("spec") == request.object.get("spec"):
                return ""
            try:
                obj = decode(request.object, struct)
            except DecodingError as error:
                return str(error)
            return function(obj, request, cluster, settings)

        return validate

    return decorate
