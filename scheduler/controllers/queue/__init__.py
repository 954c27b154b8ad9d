"""Queues: open or closed, alone or with those above them."""

from scheduler.controllers.queue.controller import QueueController

__all__ = ["QueueController"]
