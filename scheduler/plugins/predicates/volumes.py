"""Volumes: a Pod runs where its claims' volumes can be reached.

A bound claim leads to its volume, whose node affinity and zone labels bind the Pod. An unbound claim of a class that
binds at once has to be bound first; one that waits for its consumer is satisfied where a volume that is free and fits
can be reached, or anywhere if its class has a provisioner. Which volume it is to be is the volume controller's choice.
"""

from collections.abc import Collection, Iterator

import numpy as np

from scheduler.api.names import REGION_LABELS, ZONE_LABELS
from scheduler.api.node import NodeFacts
from scheduler.api.objects import PersistentVolume, PersistentVolumeClaim
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Filter, MaskFilter
from scheduler.plugins.selectors import Complain, Mask, is_sound, matches, nodes_of_terms

AFFINITY_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ZONE = "node(s) had no available volume zone"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
WAITS = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Volumes:
    """The predicate for one session."""

    def __init__(self, snapshot: Snapshot, facts: NodeFacts, *, zones: bool, binding: bool) -> None:
        self._snapshot = snapshot
        self._facts = facts
        self._zones = zones
        self._binding = binding

    def filters(self, cls: TaskClass, complain: Complain) -> list[Filter]:
        return [condition for name in _claims(cls) for condition in self._claim(cls.namespace, name, complain)]

    def _claim(self, namespace: str, name: str, complain: Complain) -> Iterator[Filter]:
        claim = self._snapshot.claims.get(f"{namespace}/{name}")
        if claim is None:
            yield self._nowhere(f'persistentvolumeclaim "{name}" not found')
            return
        if claim.spec.volume_name:
            volume = self._snapshot.volumes.get(claim.spec.volume_name)
            if volume is None:
                yield self._nowhere(f'persistentvolume "{claim.spec.volume_name}" not found')
            else:
                yield from self._bound(volume, complain)
        elif self._binding:
            yield self._unbound(claim, complain)

    def _bound(self, volume: PersistentVolume, complain: Complain) -> Iterator[Filter]:
        if self._zones:
            mask = self._zone(volume)
            if mask is not None:
                yield MaskFilter(mask, NO_ZONE)
        if self._binding:
            yield MaskFilter(self._reach(volume, complain), AFFINITY_CONFLICT)

    def _unbound(self, claim: PersistentVolumeClaim, complain: Complain) -> Filter:
        storage = self._snapshot.storage_classes.get(claim.spec.storage_class_name or "")
        if storage is None or storage.volume_binding_mode != WAITS:
            return self._nowhere(UNBOUND)
        if storage.provisioner and storage.provisioner != NO_PROVISIONER:
            return MaskFilter(np.ones(len(self._facts), dtype=bool), NO_VOLUME)
        mask = np.zeros(len(self._facts), dtype=bool)
        for volume in self._snapshot.volumes.values():
            if _fits(volume, claim, complain):
                mask |= self._reach(volume, complain)
        return MaskFilter(mask, NO_VOLUME)

    def _reach(self, volume: PersistentVolume, complain: Complain) -> Mask:
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        if required is None:
            return np.ones(len(self._facts), dtype=bool)
        return nodes_of_terms(self._facts, required.node_selector_terms, complain)

    def _zone(self, volume: PersistentVolume) -> Mask | None:
        """Nodes in one of the zones (and regions) that the volume's labels name; None: it names none.

        A volume may carry the labels' old names where the nodes carry only the new ones. A node with none of these
        labels is in a cluster without zones, or knows nothing of them: it is not held to any.
        """
        mask: Mask | None = None
        for current, former in (ZONE_LABELS, REGION_LABELS):
            for key in (current, former):
                value = (volume.metadata.labels or {}).get(key)
                if value is not None:
                    here = self._labelled(key, set(value.split("__")), fallback=current)
                    mask = here if mask is None else mask & here
        if mask is None:
            return None
        placed = [self._facts.label_column(key)[0] >= 0 for key in (*ZONE_LABELS, *REGION_LABELS)]
        zoneless: Mask = ~np.logical_or.reduce(placed)
        return mask | zoneless

    def _labelled(self, key: str, allowed: Collection[str], fallback: str) -> Mask:
        """Nodes whose label, or ``fallback`` where they lack it, has one of the values."""
        codes, values = self._facts.label_column(key)
        here: Mask = np.array([*(v in allowed for v in values), False], dtype=bool)[codes]
        if fallback != key:
            here = here | ((codes < 0) & self._labelled(fallback, allowed, fallback))
        return here

    def _nowhere(self, reason: str) -> Filter:
        return MaskFilter(np.zeros(len(self._facts), dtype=bool), reason)


def _claims(cls: TaskClass) -> Iterator[str]:
    for volume in cls.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim, complain: Complain) -> bool:
    """Whether a free volume satisfies a claim."""
    spec, wanted = volume.spec, claim.spec
    held = spec.claim_ref
    if held is not None and (held.namespace, held.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    if spec.storage_class_name != (wanted.storage_class_name or ""):
        return False
    if not set(wanted.access_modes or ()) <= set(spec.access_modes or ()):
        return False
    if wanted.selector is not None and not (
        is_sound(wanted.selector, complain) and matches(wanted.selector, volume.metadata.labels or {})
    ):
        return False
    asked = (wanted.resources.requests if wanted.resources else None) or {}
    try:
        return parse_quantity(asked.get("storage", 0)) <= parse_quantity((spec.capacity or {}).get("storage", 0))
    except QuantityError as error:
        complain("storage", str(error))
        return False
