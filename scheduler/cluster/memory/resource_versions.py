"""The resourceVersions of a cluster in memory: they continue above the largest one that was loaded.

Controllers compare versions of an object, and an older version never replaces a newer one. So a change to an object
that was read from a cluster needs a larger version than the object has there.
"""

from typing import Final

from scheduler.cluster.memory.raw_objects import Json

_MAX_DIGITS: Final = 39
"""Digits of the largest resourceVersion, which has 128 bits at most."""


class ResourceVersions:
    """Counts the versions of all objects, as etcd does."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, metadata: Json) -> None:
        """Takes up the version of a loaded object. Replaces one that is absent or no number by the next version: such
        versions cannot be compared."""
        version = metadata.get("resourceVersion")
        if isinstance(version, str) and version.isascii() and version.isdecimal() and len(version) <= _MAX_DIGITS:
            self._last = max(self._last, int(version))
        else:
            metadata["resourceVersion"] = self.next()

    def next(self) -> str:
        """Returns the version of an object that is written now."""
        self._last += 1
        return str(self._last)
