"""The steps of a session, one file each: enqueue, allocate, backfill. Importing this package registers them."""

from scheduler.actions import allocate, backfill, enqueue

__all__ = ["allocate", "backfill", "enqueue"]
