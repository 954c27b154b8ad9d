"""The head of what a controller makes: an object that another one owns, and goes with."""

from typing import Any

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.effects import Json


def owner_reference(kind: Kind, owner: KubeObject) -> Json:
    """The reference that says: this one manages me, and is not to be gone before me."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(kind: Kind, name: str, owner_kind: Kind, owner: KubeObject, **body: Any) -> Json:
    """The manifest of an object in the namespace of its owner; ``body`` is all but the head (spec, data ...)."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "ownerReferences": [owner_reference(owner_kind, owner)],
        },
        **body,
    }
