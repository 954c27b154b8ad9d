"""Quotas by card model. ``plugin`` registers the plugin; ``discovery`` and ``card_labels`` read the cards of nodes,
``demand`` the requests of Pods, ``accounting`` and ``books`` keep the sums, ``columns`` filters and scores nodes."""

from scheduler.plugins.capacity_card import plugin, remedies

__all__ = ["plugin", "remedies"]
