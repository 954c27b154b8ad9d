"""Accounting of queues and jobs, and the wording of refusals, that the queue plugins (proportion, capacity, overcommit)
share."""

from scheduler.plugins.queues.columns import JobColumns, job_columns

__all__ = ["JobColumns", "job_columns"]
