"""The actions: one file each, and those that evict side by side in ``eviction_actions``. Their parts are in
``placement`` and ``eviction``. Importing the package registers them."""

from scheduler.actions import allocate, backfill, enqueue, eviction_actions

__all__ = ["allocate", "backfill", "enqueue", "eviction_actions"]
