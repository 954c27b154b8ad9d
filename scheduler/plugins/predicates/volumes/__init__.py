"""Volumes: a Pod runs where its claims' volumes are, can be bound, or can be made.

``situations`` says what the claims of a class come to, ``plan`` which volumes they would get on each node, ``promises``
what is promised already, ``preparations`` what has to be written for it, ``limits`` how many disks a node takes.
"""

from scheduler.plugins.predicates.volumes.predicate import Volumes
from scheduler.plugins.predicates.volumes.scoring import worth_of
from scheduler.plugins.predicates.volumes.situations import Switches

__all__ = ["Switches", "Volumes", "worth_of"]
