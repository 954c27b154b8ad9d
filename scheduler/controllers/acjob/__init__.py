"""AscendJobs: their PodGroup, Pods and Service, the environment of the collective communication, and their status."""

from scheduler.controllers.acjob.controller import AscendJobController

__all__ = ["AscendJobController"]
