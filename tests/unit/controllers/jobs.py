"""Short builders of vcjobs, for controllers that create or delete them."""

from typing import Any

from scheduler.api.kinds import VCJOB, Kind

Raw = dict[str, Any]


def job(name: str, phase: str = "", owner: Raw | None = None, ended: str = "", **metadata: Any) -> Raw:
    """A job; its uid is ``uid-<name>``. ``ended``: its last transition."""
    state = {"phase": phase, **({"lastTransitionTime": ended} if ended else {})}
    return {
        "apiVersion": VCJOB.api_version,
        "kind": VCJOB.name,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            **({"ownerReferences": [owner]} if owner else {}),
            **metadata,
        },
        "spec": {"tasks": []},
        "status": {"state": state},
    }


def owner(kind: Kind, name: str, uid: str = "") -> Raw:
    """The reference to an owner that manages a job."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name,
        "uid": uid or f"uid-{name}",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def in_phase(phase: str, ended: str = "") -> Raw:
    """The patch that puts a job in a phase."""
    return {"status": {"state": {"phase": phase, **({"lastTransitionTime": ended} if ended else {})}}}
