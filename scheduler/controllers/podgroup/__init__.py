"""PodGroups for Pods that name none."""

from scheduler.controllers.podgroup.controller import PodGroupController

__all__ = ["PodGroupController"]
