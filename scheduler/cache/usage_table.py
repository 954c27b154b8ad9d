"""How busy the nodes are, by name as it was heard, and as columns for snapshots."""

from collections.abc import Mapping

from scheduler.api.node import NodeFacts
from scheduler.api.usage import NodeUsage, UsageColumns


class UsageTable:
    """The latest figures of every node."""

    def __init__(self) -> None:
        self._usages: dict[str, NodeUsage] = {}
        self._columns: tuple[NodeFacts, UsageColumns] | None = None

    def update(self, usages: Mapping[str, NodeUsage]) -> None:
        """Take what was heard; nodes that are not spoken of keep what they have."""
        self._usages.update(usages)
        self._columns = None

    def columns(self, facts: NodeFacts) -> UsageColumns | None:
        """One entry for each row of the nodes; None if nothing was ever heard."""
        if not self._usages:
            return None
        if self._columns is None or self._columns[0] is not facts:
            self._usages = {name: usage for name, usage in self._usages.items() if name in facts.index}
            self._columns = (facts, UsageColumns.of(facts.names, self._usages))
        return self._columns[1]
