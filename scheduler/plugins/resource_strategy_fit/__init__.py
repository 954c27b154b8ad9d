"""The plugin resource-strategy-fit: spreads or packs each resource, and keeps scarce ones for Pods that need them."""

from scheduler.plugins.resource_strategy_fit.plugin import ResourceStrategyFit

__all__ = ["ResourceStrategyFit"]
