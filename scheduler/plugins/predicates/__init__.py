"""The predicates plugin: filters nodes by everything except amounts of resources."""

from scheduler.plugins.predicates import plugin, taint_details
from scheduler.plugins.predicates.dynamic_resources import remedies as _devices
from scheduler.plugins.predicates.volumes import details as _volumes
from scheduler.plugins.predicates.volumes import remedies as _more_volumes

__all__ = ["_devices", "_more_volumes", "_volumes", "plugin", "taint_details"]
