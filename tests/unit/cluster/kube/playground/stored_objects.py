"""Objects of an in-process API server that can be listed, watched, created and changed."""

import asyncio
import json
import re
from typing import Any

from aiohttp import web

from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal
from tests.unit.playground.stage import merge

Raw = dict[str, Any]


class StoredObjects:
    """Answers the requests for objects of every kind. ``get``, ``put`` and ``delete`` act as other clients."""

    def __init__(self, api: FakeApi) -> None:
        self._objects: dict[str, Raw] = {}
        self._events: list[tuple[str, str, str]] = []
        """Type, path and object of each change."""
        self.delayed = False
        """Whether watches report no changes."""
        self._changed = asyncio.Condition()
        for method, handler in (("GET", self._get), ("POST", self._post), ("PATCH", self._patch)):
            api.on(method, r"/api/v1/.*", handler)

    def get(self, path: str) -> Raw:
        return self._objects[path]

    async def put(self, path: str, obj: Raw) -> None:
        await self._store("MODIFIED" if path in self._objects else "ADDED", path, obj)

    async def change(self, path: str, patch: Raw) -> None:
        obj = json.loads(json.dumps(self._objects[path]))
        merge(obj, patch)
        await self.put(path, obj)

    async def delete(self, path: str) -> None:
        await self._store("DELETED", path, self._objects.pop(path))

    async def _store(self, type: str, path: str, obj: Raw) -> None:
        obj["metadata"]["resourceVersion"] = str(len(self._events) + 1)
        if type != "DELETED":
            self._objects[path] = obj
        self._events.append((type, path, json.dumps(obj)))
        async with self._changed:
            self._changed.notify_all()

    async def _get(self, call: Call, request: web.Request) -> Answer:
        if call.path in self._objects:
            return self._objects[call.path]
        if "watch" in call.query:
            return await self._watch(call, request)
        items = [obj for path, obj in self._objects.items() if re.fullmatch(_below(call.path), path)]
        if not items and call.path.count("/") > 3:
            return refusal(404, "NotFound")
        return {"metadata": {"resourceVersion": str(len(self._events))}, "items": items}

    async def _watch(self, call: Call, request: web.Request) -> Answer:
        response = web.StreamResponse()
        await response.prepare(request)
        sent = int(call.query["resourceVersion"])
        while True:
            for type, path, text in self._events[sent:]:
                if re.fullmatch(_below(call.path), path):
                    await response.write(f'{{"type":"{type}","object":{text}}}\n'.encode())
            sent = len(self._events)
            async with self._changed:
                while len(self._events) == sent or self.delayed:
                    await self._changed.wait()

    async def _post(self, call: Call, request: web.Request) -> Answer:
        path = f"{call.path}/{call.body['metadata']['name']}"
        if path in self._objects:
            return refusal(409, "AlreadyExists")
        await self.put(path, call.body)
        return self._objects[path]

    async def _patch(self, call: Call, request: web.Request) -> Answer:
        if call.path not in self._objects:
            return refusal(404, "NotFound")
        uid = call.body["metadata"].get("uid")
        if uid and uid != self._objects[call.path]["metadata"]["uid"]:
            return refusal(409, "Conflict")
        await self.change(call.path, call.body)
        return self._objects[call.path]


def _below(collection: str) -> str:
    """The paths of the objects of a collection, in all namespaces if it names none."""
    kind = collection.rpartition("/")[2]
    return rf"{re.escape(collection)}/[^/]+|/api/v1/namespaces/[^/]+/{kind}/[^/]+"
