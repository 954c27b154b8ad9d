"""Admission of Queues: ``mutate`` sets defaults, ``validate`` refuses writes. The texts of refusals are Volcano's."""

from scheduler.webhooks.queue.validate import mutate, validate

__all__ = ["mutate", "validate"]
