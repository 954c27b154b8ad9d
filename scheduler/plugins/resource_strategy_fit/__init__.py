"""resource-strategy-fit: each resource is spread or packed as it is told, scarce ones are kept for who needs them."""

from scheduler.plugins.resource_strategy_fit.plugin import ResourceStrategyFit

__all__ = ["ResourceStrategyFit"]
