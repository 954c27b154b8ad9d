"""The preparations of a binding whose Pod has unbound claims: the writes, and the conditions that the scheduler waits
for.

To bind an existing volume, the scheduler sets the volume's ``claimRef``, and the volume controller completes the
binding. To provision a volume, the scheduler sets the selected-node annotation on the claim; the provisioner creates
the volume, or removes the annotation if it cannot. These writes are not undone if the Pod is not bound: the volume
controller and the provisioner may have acted on them.
"""

from scheduler.api.kinds import CLAIM, VOLUME
from scheduler.api.names import BOUND_BY_CONTROLLER, CLAIM_LOST, SELECTED_NODE
from scheduler.api.node import NodeFacts
from scheduler.api.objects import KubeObject, Node
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.api.selectors import ignore_field, nodes_of_terms
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claims import is_bound, selected_node


class BindVolume(Preparation, frozen=True, kw_only=True):
    """Sets the ``claimRef`` of a volume."""

    claim_namespace: str
    claim: str
    claim_uid: str

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, PersistentVolume):
            return Fail(f'persistentvolume "{self.name}" not found')
        ref = found.spec.claim_ref
        if ref is not None and ref.uid == self.claim_uid:
            return None
        if ref is not None and (ref.uid or (ref.namespace, ref.name) != (self.claim_namespace, self.claim)):
            return Fail(f'persistentvolume "{self.name}" is bound to claim {ref.namespace}/{ref.name} by now')
        if found.metadata.deletion_timestamp is not None:
            return Fail(f'persistentvolume "{self.name}" is being deleted')
        reference = {
            "apiVersion": CLAIM.api_version,
            "kind": CLAIM.name,
            "namespace": self.claim_namespace,
            "name": self.claim,
            "uid": self.claim_uid,
        }
        body: dict[str, object] = {"spec": {"claimRef": reference}}
        if ref is None:  # else a user has prebound the volume, and the claimRef must outlive the claim
            body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return PreparationPatch(body)

    def follow_up(self, found: KubeObject | None, now: float) -> Step:
        step = self.step(found, now)
        return Fail(f'ClaimRef got reset for pv "{self.name}"') if isinstance(step, PreparationPatch) else step


class _AwaitClaim(Preparation, frozen=True, kw_only=True):
    """Waits until a claim is bound."""

    uid: str

    def _current(self, found: KubeObject | None) -> PersistentVolumeClaim | Fail:
        """The claim, or why it can no longer be bound."""
        if not isinstance(found, PersistentVolumeClaim) or found.metadata.uid != self.uid:
            return Fail(f'persistentvolumeclaim "{self.name}" not found')
        if found.metadata.deletion_timestamp is not None:
            return Fail(f'persistentvolumeclaim "{self.name}" is being deleted')
        if found.status.phase == CLAIM_LOST:
            return Fail(f'persistentvolumeclaim "{self.name}" bound to non-existent persistentvolume')
        return found

    def _waits(self) -> Wait:
        return Wait(f"persistentvolumeclaim {self.namespace}/{self.name} to be bound")


class AwaitBinding(_AwaitClaim, frozen=True, kw_only=True):
    """Waits until a claim is bound to the volume that is reserved for it."""

    volume: str

    def step(self, found: KubeObject | None, now: float) -> Step:
        claim = self._current(found)
        if isinstance(claim, Fail):
            return claim
        if claim.spec.volume_name not in ("", self.volume):
            return Fail(f'persistentvolumeclaim "{self.name}" is bound to {claim.spec.volume_name}, not {self.volume}')
        return None if is_bound(claim) else self._waits()


class ProvisionVolume(_AwaitClaim, frozen=True, kw_only=True):
    """Selects a node for provisioning, waits for the volume, and checks that the Pod's node can access it."""

    selected: str
    """The node for which the volume is provisioned."""
    node: Node
    """The Pod's node; usually the same node."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        claim = self._current(found)
        if isinstance(claim, Fail):
            return claim
        if is_bound(claim):
            volume = claim.spec.volume_name
            return CheckNodeAffinity(kind=VOLUME, namespace="", name=volume, timeout=self.timeout, node=self.node)
        selected = selected_node(claim)
        if not selected and not claim.spec.volume_name:
            return PreparationPatch({"metadata": {"annotations": {SELECTED_NODE: self.selected}}})
        return self._waits() if selected in ("", self.selected) else self._failed()

    def follow_up(self, found: KubeObject | None, now: float) -> Step:
        step = self.step(found, now)
        return self._failed() if isinstance(step, PreparationPatch) else step

    def _failed(self) -> Fail:
        return Fail(f'provisioning failed for PVC "{self.name}"')


class CheckNodeAffinity(Preparation, frozen=True, kw_only=True):
    """Checks that a provisioned volume is accessible from the Pod's node."""

    node: Node

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, PersistentVolume):
            return Wait(f"persistentvolume {self.name} to be known")
        required = found.spec.node_affinity.required if found.spec.node_affinity else None
        if required is None or nodes_of_terms(NodeFacts([self.node]), required.node_selector_terms, ignore_field).all():
            return None
        return Fail(f'pv "{self.name}" node affinity doesn\'t match node "{self.node.metadata.name}"')


def bind_preparations(claim: PersistentVolumeClaim, volume: str, timeout: float) -> tuple[Preparation, ...]:
    """The preparations for a claim that gets an existing volume."""
    namespace, name, uid = claim.metadata.namespace, claim.metadata.name, claim.metadata.uid
    owner = {"claim_namespace": namespace, "claim": name, "claim_uid": uid}
    return (
        BindVolume(kind=VOLUME, namespace="", name=volume, timeout=timeout, **owner),
        AwaitBinding(kind=CLAIM, namespace=namespace, name=name, timeout=timeout, uid=uid, volume=volume),
    )


def provision_preparation(claim: PersistentVolumeClaim, selected: str, node: Node, timeout: float) -> ProvisionVolume:
    """The preparation for a claim that gets a provisioned volume."""
    namespace, name, uid = claim.metadata.namespace, claim.metadata.name, claim.metadata.uid
    return ProvisionVolume(
        kind=CLAIM, namespace=namespace, name=name, timeout=timeout, uid=uid, selected=selected, node=node
    )
