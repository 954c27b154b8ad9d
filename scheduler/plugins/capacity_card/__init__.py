"""Quota by card model: ``plugin`` registers it; names and amounts are read in ``discovery`` and ``quota``, what a Pod
takes is told in ``demand``, sums are kept in ``accounting``, nodes are ruled out and ranked in ``columns``."""

from scheduler.plugins.capacity_card import plugin, remedies

__all__ = ["plugin", "remedies"]
