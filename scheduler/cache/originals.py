"""Objects as they were written, of the kinds that plugins show to other programs, for as long as one wants them."""

from collections.abc import Mapping

from scheduler.api.kinds import SHOWN
from scheduler.cache.shared import Shared


class Originals:
    """By kind, then by ``namespace/name`` (or name)."""

    def __init__(self) -> None:
        self._stores: dict[str, Shared[object]] = {}
        """No kinds unless they are wanted."""

    def want(self, wanted: bool) -> None:
        """Whether a plugin wants them from now on. What is no longer wanted is forgotten."""
        if wanted != bool(self._stores):
            self._stores = {kind.name: Shared() for kind in SHOWN} if wanted else {}

    def wants(self, kind: str) -> bool:
        return kind in self._stores

    def keep(self, kind: str, key: str, original: object) -> None:
        """Keep an object of a kind that is wanted."""
        self._stores[kind][key] = original

    def delete(self, kind: str, key: str) -> None:
        if kind in self._stores:
            self._stores[kind].pop(key)

    def read(self) -> dict[str, Mapping[str, object]]:
        return {kind: store.read() for kind, store in self._stores.items()}
