"""The modules that the programs of `programs` import before they are forked: all modules of the program, and their
imports.

The device plugin is left out: no role imports gRPC, whose threads do not survive a fork.
"""

from importlib import import_module
from pkgutil import walk_packages

import kopf
import kubernetes.config
import uvloop

import scheduler

__all__ = ["kopf", "kubernetes", "uvloop"]

for module in walk_packages(scheduler.__path__, "scheduler."):
    if not module.name.startswith("scheduler.cluster.kube.playground.device_plugin."):
        import_module(module.name)
