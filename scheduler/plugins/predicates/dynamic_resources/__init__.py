"""Dynamic resource allocation: allocates devices to claims as kube-scheduler's DynamicResources plugin does.

Drivers publish devices in ResourceSlices (``devices``, ``pools``). Claims request them by DeviceClass, CEL expressions
and constraints (``demand``, ``expressions``). ``search`` finds devices on one node, ``books`` and ``ledger`` keep the
devices that are taken, ``columns`` has the filters and scores, and ``allocation`` the preparation that writes the
allocation into a claim before its Pod is bound.
"""
