"""Dynamic resource allocation: devices that Pods claim, as kube-scheduler's DynamicResources plugin gives them.

Drivers offer devices in ResourceSlices (``devices``, ``pools``); claims ask for them by class, CEL expressions and
constraints (``demand``, ``expressions``, ``constraints``). ``search`` finds devices of one node, ``books`` and
``ledger`` keep what is taken, ``columns`` answers for all nodes, and ``reservation`` says what is written into a claim
before its Pod is bound.
"""

from scheduler.plugins.predicates.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
