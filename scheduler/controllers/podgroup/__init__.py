"""PodGroups for Pods that nobody has put into one."""

from scheduler.controllers.podgroup.controller import PodGroupController

__all__ = ["PodGroupController"]
