"""The predicates plugin: filters nodes by everything except amounts of resources."""

from scheduler.plugins.predicates import plugin
from scheduler.plugins.predicates.dynamic_resources import remedies as _devices
from scheduler.plugins.predicates.volumes import remedies as _volumes
