"""Whether the object of a question exists. A request to the API server answers that without a session.

Objects are listed by name, because the scheduler may list them, but not get each kind.
"""

from typing import Final

import msgspec

from scheduler.api import kinds
from scheduler.api.explained_kinds import EXPLAINED
from scheduler.api.kinds import VCJOB, Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import no_such_object
from scheduler.cluster.kube.transport.client import METADATA_LIST, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.cluster.kube.transport.ratelimit import Priority

_MOST_JOBS: Final = 500
"""Jobs of a namespace among which the creator of a missing Pod is searched for."""


class _List(msgspec.Struct):
    items: list[KubeObject] | None = None
    """None instead of an empty list."""


async def problem_if_missing(client: ApiClient, kind: str, namespace: str, name: str) -> str:
    """Why a question about an object cannot be answered: it does not exist. "": it exists.

    Raises ApiError, TransportError, and msgspec's errors.
    """
    for wanted in (getattr(kinds, constant) for constant in EXPLAINED[kind].constants):
        if await _names(client, wanted, namespace, {"fieldSelector": f"metadata.name={name}"}):
            return ""
    creator = await _creator_of(client, namespace, name) if kind == "pod" else ""
    return no_such_object(kind, namespace, name, creator)


async def _creator_of(client: ApiClient, namespace: str, pod: str) -> str:
    """The vcjob whose Pods have such names, or ""."""
    start, _, number = pod.rpartition("-")
    if not number.isdecimal():
        return ""
    jobs = await _names(client, VCJOB, namespace, {"limit": str(_MOST_JOBS)})
    return max((job for job in jobs if start.startswith(f"{job}-")), key=len, default="")


async def _names(client: ApiClient, kind: Kind, namespace: str, selection: dict[str, str]) -> list[str]:
    """The names of the selected objects; none of a kind that the cluster does not have or the scheduler may not list,
    because explanations do not see those either."""
    try:
        body = await client.request(
            "GET", kind.path_in(namespace), params=selection, accept=METADATA_LIST, priority=Priority.READ
        )
    except ApiError as error:
        if error.status in (403, 404):
            return []
        raise
    return [each.metadata.name for each in msgspec.json.decode(body, type=_List).items or ()]
