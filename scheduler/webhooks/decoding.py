"""Decodes the object of a request into a typed struct, with an error that names the field.

An object may have any shape: ``simulate`` reads manifests that no API server has validated.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from scheduler.api.reasons import field_and_problem
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, Operation, WebhookSettings
from scheduler.webhooks.validation_result import ValidationResult

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


def validator(
    struct: type[T],
) -> Callable[
    [Callable[[T, AdmissionRequest, ClusterView, WebhookSettings], R]],
    Callable[[AdmissionRequest, ClusterView, WebhookSettings], R],
]:
    """A decorator: decodes the new object for a validator, and refuses an object that cannot be decoded."""

    def decorate(
        function: Callable[[T, AdmissionRequest, ClusterView, WebhookSettings], R],
    ) -> Callable[[AdmissionRequest, ClusterView, WebhookSettings], R]:
        def validate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> R:
            try:
                obj = decode(request.object, struct)
            except DecodingError as error:
                return str(error)
            return function(obj, request, cluster, settings)

        return validate

    return decorate


def spec_validator(
    struct: type[T],
) -> Callable[
    [Callable[[T, AdmissionRequest, ClusterView, WebhookSettings], R]],
    Callable[[AdmissionRequest, ClusterView, WebhookSettings], R | str],
]:
    """A decorator as ``validator``, for rules about the spec only: an update that does not change the spec is accepted.

    So an object whose stored spec is invalid can still be labelled, and its finalizers removed.
    """

    def decorate(
        function: Callable[[T, AdmissionRequest, ClusterView, WebhookSettings], R],
    ) -> Callable[[AdmissionRequest, ClusterView, WebhookSettings], R | str]:
        validate = validator(struct)(function)

        def validate_change(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> R | str:
            if request.operation is Operation.UPDATE and request.old.get("spec") == request.object.get("spec"):
                return ""
            return validate(request, cluster, settings)

        return validate_change

    return decorate
