"""CronJobs: vcjobs at times of the day."""

from scheduler.controllers.cronjob.controller import CronJobController

__all__ = ["CronJobController"]
