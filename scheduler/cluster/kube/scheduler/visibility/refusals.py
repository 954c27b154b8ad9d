"""Refusals as ``Status`` objects, whose message kubectl prints."""

import math
import re
from typing import Any, Final

import msgspec
from aiohttp import web

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "TooManyRequests",
    500: "InternalError", 503: "ServiceUnavailable",
}  # fmt: skip


class RefusedError(Exception):
    """A question that is not answered."""

    def __init__(self, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def status_response(code: int, message: str, retry_after: float = 0.0) -> web.Response:
    """A refusal. ``retry_after``: seconds; 0: not said."""
    document: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message,
        "reason": _REASONS.get(code, "InternalError"), "code": code,
    }  # fmt: skip
    headers = {"Content-Type": "application/json"}
    if retry_after:
        document["details"] = {"retryAfterSeconds": math.ceil(retry_after)}
        headers["Retry-After"] = str(math.ceil(retry_after))
    return web.Response(body=msgspec.json.encode(document), status=code, headers=headers)


def name_in(request: web.Request, part: str) -> str:
    """A part of the path that is the name of an object. Raises RefusedError."""
    text = request.match_info[part]
    if not _NAME.fullmatch(text):
        raise RefusedError(400, f"{text[:64]!r} cannot be a {part}")
    return text
