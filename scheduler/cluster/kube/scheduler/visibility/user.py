"""Who sends a request, and what the API server allows that user."""

from typing import Any, Final

import msgspec

from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.ratelimit import CallPriority

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""Prefix of the user names of ServiceAccounts; their namespace follows."""
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class UnauthenticatedError(Exception):
    """The request names no user that can be trusted."""


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
    """Asks the API server whose token it is (TokenReview). Raises UnauthenticatedError, RequestError, and
    msgspec's errors."""
    body = msgspec.json.encode({"spec": {"token": token}})
    answer = await client.request("POST", _TOKEN_REVIEWS, priority=CallPriority.READ, body=body)
    status = msgspec.json.decode(answer, type=_TokenReview).status
    if not status.authenticated or not status.user.username:
        raise UnauthenticatedError("the bearer token is not valid")
    found = status.user
    return User(found.username, tuple(found.groups or ()), found.uid, found.extra or {})


async def is_allowed(
    client: ApiClient,
    user: User,
    verb: str,
    namespace: str,
    resource: str,
    subresource: str = "",
    name: str = "",
    *,
    api_version: str = VISIBILITY_API_VERSION,
) -> bool:
    """Asks the API server whether the user has a right (SubjectAccessReview), by default in the group of the aggregated
    API. ``namespace`` "": in the whole cluster. Raises RequestError, and msgspec's errors."""
    group, _, version = api_version.rpartition("/")
    attributes = {
        "group": group, "version": version, "resource": resource, "subresource": subresource, "verb": verb,
        "namespace": namespace, "name": name,
    }  # fmt: skip
    spec: dict[str, Any] = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = user.extra
    body = msgspec.json.encode({"spec": spec})
    answer = await client.request("POST", _ACCESS_REVIEWS, priority=CallPriority.READ, body=body)
    return msgspec.json.decode(answer, type=_AccessReview).status.allowed
