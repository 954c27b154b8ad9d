"""Decodes AdmissionReviews (v1) and encodes their answers."""

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.api.objects import Wire
from scheduler.cluster.kube.admission.jsonpatch import json_patch
from scheduler.webhooks.contract import Json, Operation, Request
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


class _Review(Wire):
    api_version: str
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review).decode


class DecodedReview(msgspec.Struct, frozen=True):
    """A review's uid, and the request in it."""

    uid: str
    request: Request


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
    request = Request(
        Operation(wire.operation),
        route.kind,
        wire.namespace,
        wire.name,
        wire.object or {},
        wire.old_object or {},
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
