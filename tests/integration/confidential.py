"""What no log, recording, Event or metric may contain: tokens, keys, and data of Secrets."""

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from controlplane.run import ControlPlane
from scheduler.record.frames import joined, read_frames

_LEAST = 12
"""Shorter values may occur by chance."""


def confidential(plane: ControlPlane) -> set[bytes]:
    """The tokens of all users of a control plane, and the data of its Secrets, as they are, line by line, and in
    base64."""
    found = set()
    for kubeconfig in plane.directory.glob("kubeconfig-*.json"):
        for user in json.loads(kubeconfig.read_text(encoding="utf-8"))["users"]:
            found.add(user["user"]["token"].encode())
    for secret in plane.admin.get("/api/v1/secrets")["items"]:
        for encoded in (secret.get("data") or {}).values():
            found |= {encoded.encode(), *base64.b64decode(encoded).splitlines()}
    return {text for text in found if len(text) >= _LEAST}


def recorded(directory: Path) -> Iterator[bytes]:
    """The contents of recordings, decompressed."""
    for file in directory.glob("*.record"):
        yield from (joined([frame]) for frame in read_frames(file))


def leaked(secrets: Iterable[bytes], *texts: bytes) -> list[bytes]:
    """The confidential values that a text contains."""
    return [secret for secret in secrets if any(secret in text for text in texts)]
