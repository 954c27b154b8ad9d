"""What has to be written, and to come about, before a Pod with unbound claims may be bound.

A volume is promised by naming the claim in it; the volume controller does the rest. A volume is asked for by naming the
node on the claim; its provisioner makes it, and takes the node off again if it cannot. What was written stays if the
Pod is not bound after all: claim and volume have found each other, and only those who own them may part them.
"""

from dataclasses import dataclass

from scheduler.api.kinds import CLAIM, VOLUME
from scheduler.api.names import BOUND_BY_CONTROLLER, CLAIM_LOST, SELECTED_NODE
from scheduler.api.node import NodeFacts
from scheduler.api.objects import KubeObject, Node
from scheduler.api.preparation import Fails, Patch, Preparation, Step, Waits
from scheduler.api.selectors import ignore_field, nodes_of_terms
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claims import is_bound, selected_node


@dataclass(frozen=True, kw_only=True)
class PromiseVolume(Preparation):
    """A volume names the claim that it is for."""

    claim_namespace: str
    claim: str
    claim_uid: str

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, PersistentVolume):
            return Fails(f'persistentvolume "{self.name}" not found')
        held = found.spec.claim_ref
        if held is not None and held.uid == self.claim_uid:
            return None
        if held is not None and (held.uid or (held.namespace, held.name) != (self.claim_namespace, self.claim)):
            return Fails(f'persistentvolume "{self.name}" is bound to claim {held.namespace}/{held.name} by now')
        if found.metadata.deletion_timestamp is not None:
            return Fails(f'persistentvolume "{self.name}" is being deleted')
        reference = {
            "apiVersion": CLAIM.api_version,
            "kind": CLAIM.name,
            "namespace": self.claim_namespace,
            "name": self.claim,
            "uid": self.claim_uid,
        }
        body: dict[str, object] = {"spec": {"claimRef": reference}}
        if held is None:  # else a person has kept it for the claim, and it stays so if they part
            body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return Patch(body)

    def follow_up(self, found: KubeObject | None, now: float) -> Step:
        step = self.step(found, now)
        return Fails(f'ClaimRef got reset for pv "{self.name}"') if isinstance(step, Patch) else step


@dataclass(frozen=True, kw_only=True)
class _Claimed(Preparation):
    """A claim is bound in the end."""

    uid: str

    def _standing(self, found: KubeObject | None) -> PersistentVolumeClaim | Fails:
        """The claim, if it is still the one that was decided for."""
        if not isinstance(found, PersistentVolumeClaim) or found.metadata.uid != self.uid:
            return Fails(f'persistentvolumeclaim "{self.name}" not found')
        if found.metadata.deletion_timestamp is not None:
            return Fails(f'persistentvolumeclaim "{self.name}" is being deleted')
        if found.status.phase == CLAIM_LOST:
            return Fails(f'persistentvolumeclaim "{self.name}" bound to non-existent persistentvolume')
        return found

    def _waits(self) -> Waits:
        return Waits(f"persistentvolumeclaim {self.namespace}/{self.name} to be bound")


@dataclass(frozen=True, kw_only=True)
class AwaitVolume(_Claimed):
    """A claim is bound to the volume that was promised to it."""

    volume: str

    def step(self, found: KubeObject | None, now: float) -> Step:
        claim = self._standing(found)
        if isinstance(claim, Fails):
            return claim
        if claim.spec.volume_name not in ("", self.volume):
            return Fails(f'persistentvolumeclaim "{self.name}" is bound to {claim.spec.volume_name}, not {self.volume}')
        return None if is_bound(claim) else self._waits()


@dataclass(frozen=True, kw_only=True)
class ProvisionVolume(_Claimed):
    """A volume is made for a claim, where the chosen node reaches it, and the Pod's node does."""

    selected: str
    """The node that the volume is made for."""
    node: Node
    """The node that the Pod is bound to: most often the same."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        claim = self._standing(found)
        if isinstance(claim, Fails):
            return claim
        if is_bound(claim):
            volume = claim.spec.volume_name
            return ReachVolume(kind=VOLUME, namespace="", name=volume, timeout=self.timeout, node=self.node)
        selected = selected_node(claim)
        if not selected and not claim.spec.volume_name:
            return Patch({"metadata": {"annotations": {SELECTED_NODE: self.selected}}})
        return self._waits() if selected in ("", self.selected) else self._failed()

    def follow_up(self, found: KubeObject | None, now: float) -> Step:
        step = self.step(found, now)
        return self._failed() if isinstance(step, Patch) else step

    def _failed(self) -> Fails:
        return Fails(f'provisioning failed for PVC "{self.name}"')


@dataclass(frozen=True, kw_only=True)
class ReachVolume(Preparation):
    """A volume that was made can be reached from the Pod's node."""

    node: Node

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, PersistentVolume):
            return Waits(f"persistentvolume {self.name} to be known")
        required = found.spec.node_affinity.required if found.spec.node_affinity else None
        if required is None or nodes_of_terms(NodeFacts([self.node]), required.node_selector_terms, ignore_field).all():
            return None
        return Fails(f'pv "{self.name}" node affinity doesn\'t match node "{self.node.metadata.name}"')


def by_volume(claim: PersistentVolumeClaim, volume: str, timeout: float) -> tuple[Preparation, ...]:
    """A claim gets a volume that is there."""
    meta = claim.metadata
    return (
        PromiseVolume(
            kind=VOLUME,
            namespace="",
            name=volume,
            timeout=timeout,
            claim_namespace=meta.namespace,
            claim=meta.name,
            claim_uid=meta.uid,
        ),
        AwaitVolume(kind=CLAIM, namespace=meta.namespace, name=meta.name, timeout=timeout, uid=meta.uid, volume=volume),
    )


def by_provisioning(claim: PersistentVolumeClaim, selected: str, node: Node, timeout: float) -> tuple[Preparation, ...]:
    """A claim gets a volume that is made for it."""
    meta = claim.metadata
    return (
        ProvisionVolume(
            kind=CLAIM,
            namespace=meta.namespace,
            name=meta.name,
            timeout=timeout,
            uid=meta.uid,
            selected=selected,
            node=node,
        ),
    )
