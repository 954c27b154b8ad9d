"""Users whom an API server vouches for when it proxies a request to an aggregated API.

The API server removes the credentials of the user, names the user in headers, and authenticates itself with a client
certificate. The authority of that certificate and the names of the headers are in a ConfigMap of the API server.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from multidict import CIMultiDictProxy

from scheduler.api.json_texts import json_problem
from scheduler.api.kinds import CONFIG_MAP, object_path
from scheduler.cluster.kube.scheduler.visibility.user import User
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.ratelimit import CallPriority

CONFIGURATION: Final = ("kube-system", "extension-apiserver-authentication")
"""Namespace and name of the ConfigMap."""
_GROUPS: Final = 256
"""Maximum number of groups of a user."""


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


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


async def read_front_proxy(client: ApiClient) -> FrontProxy:
    """Reads the ConfigMap. Raises FrontProxyError, RequestError."""
    body = await client.request("GET", object_path(CONFIG_MAP, *CONFIGURATION), priority=CallPriority.CONTROL)
    try:
        data = msgspec.json.decode(body, type=_ConfigMap).data or {}
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
