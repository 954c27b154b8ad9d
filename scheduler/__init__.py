"""A secondary Kubernetes scheduler for batch workloads, in one package per concern.

``api`` is the domain in plain data; ``framework`` turns a snapshot of it into a session; ``actions`` and ``plugins``
decide; ``cache`` keeps the live model of the cluster; ``cluster`` reads from and writes to a cluster; ``cli`` is the
command line. Dependencies point from the last to the first, never back.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
