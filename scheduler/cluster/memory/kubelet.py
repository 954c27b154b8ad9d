"""What kubelets and the taint eviction controller do to Pods, between two cycles of a simulation."""

from typing import Any

import msgspec

from scheduler.api.kinds import NODE, POD
from scheduler.api.objects import Pod, Taint
from scheduler.api.tolerations import NO_EXECUTE, tolerates
from scheduler.cluster.manifests import decode
from scheduler.cluster.memory.server import Key, MemoryServer


class SimulatedKubelet:
    """Bound Pods run; a Pod that is deleted is gone when this has run twice more."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._leaving: list[Key] = []
        """Pods deleted before the last run, gone with this one."""

    def run(self) -> tuple[bool, list[dict[str, Any]]]:
        """Whether anything changed, and the Pods that a NoExecute taint they do not tolerate drives out."""
        server = self._server
        gone = self._leaving
        self._leaving, server.terminating = server.terminating, []
        changed = bool(gone)
        for key in gone:
            if server.find(POD, key[1], key[2]) is not None:
                server.remove(key)
        driven_out = []
        tainted = self._tainted()
        for raw in server.of(POD):
            meta, node = raw["metadata"], raw["spec"].get("nodeName")
            if not node or meta.get("deletionTimestamp"):
                continue
            phase = raw["status"].get("phase")
            if phase in (None, "", "Pending"):
                phase = "Running"
                running = {**raw, "status": {**raw["status"], "phase": phase}}
                server.update(POD, meta["namespace"], meta["name"], running)
                changed = True
            if phase == "Running" and node in tainted and not self._may_stay(raw, tainted[node]):
                server.delete(POD, meta["namespace"], meta["name"])
                driven_out.append(raw)
                changed = True
        return changed, driven_out

    def _tainted(self) -> dict[str, list[Taint]]:
        """The nodes with NoExecute taints, and these."""
        result = {}
        for node in self._server.of(NODE):
            known = [msgspec.convert(taint, Taint) for taint in (node.get("spec") or {}).get("taints") or ()]
            driving = [taint for taint in known if taint.effect == NO_EXECUTE]
            if driving:
                result[node["metadata"]["name"]] = driving
        return result

    @staticmethod
    def _may_stay(raw: dict[str, Any], taints: list[Taint]) -> bool:
        pod = decode(POD, raw, "the cluster in memory")
        tolerations = (pod.spec.tolerations if isinstance(pod, Pod) else None) or ()
        return all(tolerates(tolerations, taint) for taint in taints)
