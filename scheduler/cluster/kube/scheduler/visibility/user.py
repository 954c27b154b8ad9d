"""Who sends a request, what the API server allows that user, and refusals as ``Status`` objects.

An API server vouches for the users whose requests it proxies to an aggregated API. It removes the credentials of the
user, names the user in headers, and authenticates itself with a client certificate. The authority of that certificate
and the names of the headers are in a ConfigMap of the API server. Other users send a bearer token.
"""

import math
import re
from collections.abc import Awaitable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import structlog
from aiohttp import web
from multidict import CIMultiDictProxy

from scheduler.api.json_texts import json_problem
from scheduler.api.kinds import CONFIG_MAP, object_path
from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.api.objects import ConfigMap
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.ratelimit import CallPriority

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 429: "TooManyRequests",
    500: "InternalError", 503: "ServiceUnavailable",
}  # fmt: skip
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Prefix of the user names of ServiceAccounts; their namespace follows."""
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CONFIGURATION: Final = ("kube-system", "extension-apiserver-authentication")
"""Namespace and name of the ConfigMap."""
_GROUPS: Final = 256
"""Maximum number of groups of a user."""
log = structlog.get_logger(__name__)


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


async def answer_or_refusal(question: Awaitable[web.StreamResponse], subject: str) -> web.StreamResponse:
    """The answer to a question, or its refusal. ``subject``: what is answered, for the log."""
    try:
        return await question
    except RefusedError as refusal:
        return status_response(refusal.status, str(refusal), refusal.retry_after)
    except (RequestError, msgspec.MsgspecError) as error:
        log.warning(f"{subject} was not answered", error=str(error))
        return status_response(503, "the API server did not confirm who asks and what is allowed", 1.0)


def is_name(text: str) -> bool:
    """Whether a text can be the name of an object."""
    return _NAME.fullmatch(text) is not None


def name_in(request: web.Request, part: str) -> str:
    """A part of the path that is the name of an object. Raises RefusedError."""
    text = request.match_info[part]
    if not is_name(text):
        raise RefusedError(400, f"{text[:64]!r} cannot be a {part}")
    return text


class User(msgspec.Struct, frozen=True):
    """A user as the API server knows one."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace of a ServiceAccount; "" for other users."""
        if not self.name.startswith(_SERVICE_ACCOUNT):
            return ""
        namespace, _, _ = self.name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return namespace


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


async def user_of_token(client: ApiClient, token: str) -> User:
    """Asks the API server whose token it is (TokenReview). Raises RefusedError, RequestError, and
    msgspec's errors."""
    body = msgspec.json.encode({"spec": {"token": token}})
    answer = await client.request("POST", _TOKEN_REVIEWS, priority=CallPriority.READ, body=body)
    status = msgspec.json.decode(answer, type=_TokenReview).status
    if not status.authenticated or not status.user.username:
        raise RefusedError(401, "the bearer token is not valid")
    found = status.user
    return User(found.username, tuple(found.groups or ()), found.uid, found.extra or {})


class ResourceAccess(msgspec.Struct, frozen=True):
    """A verb on a resource, by default in the group of the aggregated API, for which a user needs a right."""

    verb: str
    namespace: str
    """"": the whole cluster."""
    resource: str
    subresource: str = ""
    name: str = ""
    api_version: str = VISIBILITY_API_VERSION


async def is_allowed(client: ApiClient, user: User, access: ResourceAccess) -> bool:
    """Asks the API server whether the user has a right (SubjectAccessReview). Raises RequestError, and msgspec's
    errors."""
    attributes = msgspec.structs.asdict(access)
    attributes["group"], _, attributes["version"] = attributes.pop("api_version").rpartition("/")
    spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = user.extra
    body = msgspec.json.encode({"spec": spec})
    answer = await client.request("POST", _ACCESS_REVIEWS, priority=CallPriority.READ, body=body)
    return msgspec.json.decode(answer, type=_AccessReview).status.allowed


async def authorize(client: ApiClient, user: User, access: ResourceAccess) -> None:
    """Raises RefusedError unless the user has a right; otherwise raises as ``is_allowed``."""
    if await is_allowed(client, user, access):
        return
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    group, _, _ = access.api_version.rpartition("/")
    where = f"in the namespace {access.namespace!r}" if access.namespace else "at the cluster scope"
    qualified = f"{what}.{group}" if group else what
    raise RefusedError(
        403,
        f"{qualified}{f' {access.name!r}' if access.name else ''} is forbidden: User {user.name!r} cannot "
        f"{access.verb} resource {what!r} in API group {group!r} {where}",
    )


class FrontProxyError(Exception):
    """The ConfigMap is malformed."""


class FrontProxy(msgspec.Struct, frozen=True):
    """How API servers authenticate, and how they name users."""

    authority: str = ""
    """PEM; "": API servers do not proxy requests."""
    names: tuple[str, ...] = ()
    """Common names of their certificates; none: any."""
    user_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()

    def trusts(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client is an API server. ``certificate``: what the client presented, verified by TLS against the
        authority, in the form of ``ssl.SSLSocket.getpeercert``; None or empty: the client presented none."""
        if not certificate or not self.authority:
            return False
        names = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
        return not self.names or not names.isdisjoint(self.names)

    def user(self, headers: "CIMultiDictProxy[str]") -> User | None:
        """The user that the headers of a trusted client name; None: they name no user."""
        name = _first(headers, self.user_headers)
        if not name:
            return None
        groups = [value for header in self.group_headers for value in headers.getall(header, ())]
        extra: dict[str, list[str]] = {}
        for header, value in headers.items():
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
        return User(name, tuple(groups[:_GROUPS]), _first(headers, self.uid_headers), extra)


def _first(headers: "CIMultiDictProxy[str]", names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := headers.get(name, ""))), "")


async def read_front_proxy(client: ApiClient) -> FrontProxy:
    """Reads the ConfigMap. Raises FrontProxyError, RequestError."""
    body = await client.request("GET", object_path(CONFIG_MAP, *CONFIGURATION), priority=CallPriority.CONTROL)
    try:
        data = msgspec.json.decode(body, type=ConfigMap).data or {}
        return FrontProxy(
            data.get("requestheader-client-ca-file", ""),
            _list(data, "requestheader-allowed-names"),
            _list(data, "requestheader-username-headers"),
            _list(data, "requestheader-group-headers"),
            _list(data, "requestheader-extra-headers-prefix"),
            _list(data, "requestheader-uid-headers"),
        )
    except msgspec.MsgspecError as error:
        raise FrontProxyError(f"ConfigMap {'/'.join(CONFIGURATION)}: {error}") from None


def _list(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Raises FrontProxyError."""
    text = data.get(key, "") or "[]"
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.MsgspecError as error:
        problem = json_problem(text) or str(error)
        raise FrontProxyError(f"ConfigMap {'/'.join(CONFIGURATION)}: data[{key}]: {problem}") from None
