"""Decodes AdmissionReviews (v1) and encodes their answers."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from scheduler.api.objects import Wire
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation
from scheduler.webhooks.routes import Route

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
DENIED: Final = 400
"""The HTTP status of the API server's answer to the refused write."""
FAILED: Final = 500
_encode = msgspec.json.Encoder().encode


class ReviewError(ValueError):
    """The body is not a review of this path."""


class _Resource(Wire):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Request(Wire):
    uid: str
    resource: _Resource
    operation: str
    namespace: str = ""
    name: str = ""
    object: Json | None = None
    old_object: Json | None = None
    dry_run: bool | None = None


class _Review(Wire):
    api_version: str
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review).decode


class DecodedReview(msgspec.Struct, frozen=True):
    """A review's uid, and the request in it."""

    uid: str
    request: AdmissionRequest


def read_review(body: bytes, route: Route) -> DecodedReview:
    """Decodes a review. Raises ReviewError with the reason."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ReviewError(f"not an {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise ReviewError(f"expected {API_VERSION} {KIND}, got {review.api_version[:64]} {review.kind[:64]}")
    wire = review.request
    if (wire.resource.group, wire.resource.resource) != (route.kind.group, route.kind.plural):
        named = f"{wire.resource.resource}.{wire.resource.group}"
        raise ReviewError(f"{route.path} is about {route.kind}, not {named[:128]}")
    if wire.operation not in route.operations:
        raise ReviewError(f"{route.path} is not about {wire.operation[:64]}")
    request = AdmissionRequest(
        Operation(wire.operation),
        route.kind,
        wire.namespace,
        wire.name,
        wire.object or {},
        wire.old_object or {},
        wire.dry_run is True,
    )
    return DecodedReview(wire.uid, request)


def allowed(uid: str, old: Json | None = None, new: Json | None = None, warnings: Sequence[str] = ()) -> bytes:
    """The answer that allows a write, with the patch from ``old`` to ``new``. ``warnings``: for the client."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    patch = list(json_patch(old, new))
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(patch)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return _answer(response)


def refused(uid: str, message: str, code: int = DENIED) -> bytes:
    """The answer that refuses a write."""
    return _answer({"uid": uid, "allowed": False, "status": {"code": code, "message": message}})


def _answer(response: dict[str, Any]) -> bytes:
    return _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def json_patch(old: Any, new: Any, path: str = "") -> Iterator[Json]:
    """The operations that turn ``old`` into ``new``, in order.

    Equal members are not patched, so that the patch of another webhook is not undone. Lists are compared item by item.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            where = f"{path}/{_escaped(key)}"
            if key in old:
                yield from json_patch(old[key], value, where)
            else:
                yield {"op": "add", "path": where, "value": value}
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from json_patch(before, after, f"{path}/{index}")
        for index in range(len(old) - 1, len(new) - 1, -1):  # from the end, so that the indices stay valid
            yield {"op": "remove", "path": f"{path}/{index}"}
        for value in new[len(old) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    elif not _equal(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _equal(old: Any, new: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
