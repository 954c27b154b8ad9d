"""The steps of a session, one file each. Importing this package registers them."""

from scheduler.actions import allocate, backfill, enqueue, gang_preempt, gang_reclaim, preempt, reclaim, shuffle

__all__ = ["allocate", "backfill", "enqueue", "gang_preempt", "gang_reclaim", "preempt", "reclaim", "shuffle"]
