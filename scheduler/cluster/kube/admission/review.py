"""The wire form of admission: an AdmissionReview (v1) in, its answer out."""

import base64
from typing import Any, Final

import msgspec

from scheduler.api.objects import Wire
from scheduler.cluster.kube.admission.jsonpatch import json_patch
from scheduler.webhooks.contract import Json, Operation, Request
from scheduler.webhooks.routes import Route

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
DENIED: Final = 400
"""HTTP status that the API server gives the refused write."""
FAILED: Final = 500
_encode = msgspec.json.Encoder().encode


class ReviewError(ValueError):
    """Not a review that this path can answer."""


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


class Asked(msgspec.Struct, frozen=True):
    """What one review asks."""

    uid: str
    request: Request


def read_review(body: bytes, route: Route) -> Asked:
    """Raises ReviewError, which says what is wrong."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ReviewError(f"not an {KIND}: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise ReviewError(f"expected {API_VERSION} {KIND}, got {review.api_version[:64]} {review.kind[:64]}")
    asked = review.request
    if (asked.resource.group, asked.resource.resource) != (route.kind.group, route.kind.plural):
        named = f"{asked.resource.resource}.{asked.resource.group}"
        raise ReviewError(f"{route.path} is about {route.kind}, not {named[:128]}")
    if asked.operation not in route.operations:
        raise ReviewError(f"{route.path} is not about {asked.operation[:64]}")
    request = Request(
        Operation(asked.operation),
        route.kind,
        asked.namespace,
        asked.name,
        asked.object or {},
        asked.old_object or {},
    )
    return Asked(asked.uid, request)


def allowed(uid: str, old: Json | None = None, new: Json | None = None) -> bytes:
    """The answer that lets a write pass, with the patch that makes ``new`` of ``old``."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    patch = list(json_patch(old, new))
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode(patch)).decode()
    return _answer(response)


def refused(uid: str, message: str, code: int = DENIED) -> bytes:
    return _answer({"uid": uid, "allowed": False, "status": {"code": code, "message": message}})


def _answer(response: dict[str, Any]) -> bytes:
    return _encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
