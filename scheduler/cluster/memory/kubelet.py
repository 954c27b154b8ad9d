"""What kubelets and the taint eviction controller do to Pods, between two cycles of a simulation."""

import msgspec

from scheduler.api.kinds import NODE, POD
from scheduler.api.objects import Pod, Taint
from scheduler.api.pod_rules import NO_EXECUTE, tolerates
from scheduler.cluster.memory.pods import node_of
from scheduler.cluster.memory.server import Json, Key, MemoryServer


class SimulatedKubelet:
    """Bound Pods run; a Pod that is deleted is gone when this has run twice more."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._leaving: list[Key] = []
        """Pods deleted before the last run, gone with this one."""

    @property
    def waits(self) -> bool:
        """Whether Pods were deleted that are still there."""
        return bool(self._leaving or self._server.terminating)

    def run(self) -> tuple[bool, list[Json]]:
        """Whether anything changed, and the Pods that a NoExecute taint they do not tolerate drives out."""
        server = self._server
        gone = self._leaving
        self._leaving, server.terminating = server.terminating, []
        changed = bool(gone)
        for key in gone:
            if server.find(POD, key[1], key[2]) is not None:
                server.remove(key)
        for raw in server.by(POD, _starts):
            meta = raw["metadata"]
            running = {**raw, "status": {**raw["status"], "phase": "Running"}}
            server.update(POD, meta["namespace"], meta["name"], running)
            changed = True
        driven_out = [
            raw
            for node, taints in self._tainted().items()
            for raw in server.by(POD, node_of, node)
            if _runs(raw) and not self._may_stay(raw, taints)
        ]
        for raw in driven_out:
            server.delete(POD, raw["metadata"]["namespace"], raw["metadata"]["name"])
        return changed or bool(driven_out), driven_out

    def _tainted(self) -> dict[str, list[Taint]]:
        """The nodes with NoExecute taints, and these."""
        result = {}
        for node in self._server.by(NODE, _is_tainted):
            known = [msgspec.convert(taint, Taint) for taint in node["spec"]["taints"]]
            driving = [taint for taint in known if taint.effect == NO_EXECUTE]
            if driving:
                result[node["metadata"]["name"]] = driving
        return result

    def _may_stay(self, raw: Json, taints: list[Taint]) -> bool:
        pod = self._server.decoded(POD, raw["metadata"]["namespace"], raw["metadata"]["name"])
        tolerations = (pod.spec.tolerations if isinstance(pod, Pod) else None) or ()
        return all(tolerates(tolerations, taint) for taint in taints)


def _starts(pod: Json) -> bool | None:
    """Whether a Pod is to begin to run."""
    waits = pod["status"].get("phase") in (None, "", "Pending")
    return (waits and bool(node_of(pod)) and not pod["metadata"].get("deletionTimestamp")) or None


def _runs(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def _is_tainted(node: Json) -> bool | None:
    return bool((node.get("spec") or {}).get("taints")) or None
