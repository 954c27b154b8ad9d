"""A cluster with card quotas over many sessions, with terminating Pods, users who rewrite objects, and restarts.

The expected usage of queues is computed from the Pods that are bound and not deleted.
"""

from collections import Counter
from typing import Any

from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import BINDING_RECORD, CPU
from scheduler.api.signed_records import SigningKey
from scheduler.api.task import Task
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import decode
from scheduler.cluster.memory.server import key_of
from scheduler.framework.configuration import Configuration
from tests.builders import NAME, Raw, World, manifests
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU

KEY = SigningKey(b"k" * 32, 1.0)


class History(World):
    """A World in which the scheduler signs its bindings."""

    def __init__(self, *objects: Raw | list[Raw]) -> None:
        super().__init__(*objects)
        self.cluster.cache.set_signing_key(KEY)
        self.admitted: dict[str, tuple[str, str]] = {}
        """Maps the uid of a bound Pod to the queue of its PodGroup at binding, and to the product label of its node."""

    def cycle(self, configuration: Configuration = CONFIGURATION) -> dict[str, str]:
        """Runs one session and its bindings; returns bound Pod -> node."""
        self.run(configuration, exits=False)
        assert self.outcome is not None
        for bind in self.decisions.binds:
            labels = self.get("Node", bind.node)["metadata"].get("labels") or {}
            queue = self.outcome.session.jobs[bind.task.job].queue
            self.admitted[bind.task.uid] = (queue, labels.get(f"{GPU}.product", ""))
            assert bind.record is not None
            self._patch(POD, bind.task.name, _annotation(BINDING_RECORD, bind.record.text(bind.task.uid, KEY)))
        return self.bound

    def _patch(self, kind: Kind, name: str, body: Raw) -> None:
        namespace = "default" if kind in (POD, POD_GROUP) else ""
        self.cluster.server.patch(kind, namespace, name, body)

    # --- what happens ---
    def create(self, *objects: Raw | list[Raw]) -> None:
        for manifest in manifests(*objects):
            assert manifest.kind is not None
            self.cluster.server.create(manifest.kind, manifest.raw)

    def terminate(self, pod: str) -> None:
        """Deletes a Pod. It terminates until ``gone`` is called; a Pod without a node is removed at once."""
        self.cluster.server.delete(POD, "default", pod)

    def gone(self, pod: str) -> None:
        self.cluster.server.remove(key_of(POD, "default", pod))

    def finish(self, pod: str, phase: str = "Succeeded") -> None:
        self._patch(POD, pod, {"status": {"phase": phase}})

    def restart(self) -> None:
        """Restarts the scheduler with the state of the API server."""
        cache = ClusterCache([NAME])
        cache.set_signing_key(KEY)
        for kind, raw in self.cluster.server:
            if kind is not None and kind.struct is not None:
                cache.upsert(kind, decode(kind, raw, ""))
        self.cluster.cache = cache

    # --- what a tenant may do ---
    def annotate(self, pod: str, key: str, value: str | None) -> None:
        """Sets an annotation of a Pod; None removes it."""
        self._patch(POD, pod, _annotation(key, value))

    def move(self, group: str, queue: str) -> None:
        self._patch(POD_GROUP, group, {"spec": {"queue": queue}})

    def delete_group(self, group: str) -> None:
        self.cluster.server.delete(POD_GROUP, "default", group)

    # --- what an administrator may do ---
    def label(self, node: str, key: str, value: str | None) -> None:
        self._patch(NODE, node, {"metadata": {"labels": {key: value}}})

    def delete_queue(self, queue: str) -> None:
        self.cluster.server.delete(QUEUE, "", queue)

    # --- what is so ---
    def on_nodes(self) -> list[Raw]:
        """The Pods on nodes."""
        pods = [raw for raw in self.cluster.objects() if raw["kind"] == "Pod"]
        return [
            p for p in pods if p["spec"].get("nodeName") and p["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def held(self) -> Counter[tuple[str, str]]:
        """Maps (admitting queue, card or ``cpu``) to the amount that Pods hold, including terminating Pods."""
        result: Counter[tuple[str, str]] = Counter()
        for raw in self.on_nodes():
            queue, card = self.admitted[raw["metadata"]["uid"]]
            requests: dict[str, Any] = raw["spec"]["containers"][0]["resources"]["requests"]
            result[queue, card] += int(requests.get(GPU, 0))
            result[queue, CPU] += int(requests[CPU])
        return result

    def task(self, pod: str) -> Task:
        found = self.cluster.cache.task(f"default/{pod}")
        assert found is not None
        return found


def _annotation(key: str, value: str | None) -> Raw:
    return {"metadata": {"annotations": {key: value}}}
