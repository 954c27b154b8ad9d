"""The actions, one file each, with their parts in ``placement`` and ``eviction``. Importing it registers them."""

from scheduler.actions import allocate, backfill, enqueue, gang_preempt, gang_reclaim, preempt, reclaim, shuffle

__all__ = ["allocate", "backfill", "enqueue", "gang_preempt", "gang_reclaim", "preempt", "reclaim", "shuffle"]
