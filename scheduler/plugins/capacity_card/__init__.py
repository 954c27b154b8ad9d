"""Quotas by card model. ``plugin`` registers the plugin; ``discovery`` and ``quota`` read names and amounts, ``demand``
reads the requests of Pods, ``accounting`` and ``books`` keep the sums, ``columns`` filters and scores nodes."""

from scheduler.plugins.capacity_card import borrowing_details, plugin, remedies

__all__ = ["borrowing_details", "plugin", "remedies"]
