"""A cluster of ``live_objects`` on a real API server, with the statuses that kubelets and controllers would write."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from benchmarks.contest import Api, collection_of
from controlplane.run import ControlPlane
from scheduler.api.kinds import POD_GROUP

Raw = dict[str, Any]
_AT_ONCE = 2_000
"""The number of objects that are in memory before they are sent."""


async def fill(plane: ControlPlane, objects: Iterable[Raw]) -> None:
    """Creates the objects, which may have uids and statuses: they get new uids, and these statuses."""
    source = iter(objects)
    async with Api.of(plane) as api:
        while part := list(islice(source, _AT_ONCE)):
            await api.post_all((collection_of(raw), _new(raw)) for raw in part)
            with_status = [
                raw for raw in part if raw.get("status") and raw["kind"] != POD_GROUP.name
            ]  # PodGroups have theirs already
            await api.patch_all(
                (f"{collection_of(raw)}/{raw['metadata']['name']}/status", _status(raw)) for raw in with_status
            )


def _new(raw: Raw) -> bytes:
    given = ("uid", "resourceVersion", "creationTimestamp", "generation")
    meta = {key: value for key, value in raw["metadata"].items() if key not in given}
    return json.dumps({**raw, "metadata": meta}).encode()


def _status(raw: Raw) -> bytes:
    return json.dumps({"status": raw["status"]}).encode()
