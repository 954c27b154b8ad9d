"""The controller of vcjobs."""

from scheduler.controllers.job.controller import JobController

__all__ = ["JobController"]
