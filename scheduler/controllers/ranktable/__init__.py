"""Rank tables: which chips the Pods of a distributed job have, for their collective communication."""

from scheduler.controllers.ranktable.controller import RankTableController

__all__ = ["RankTableController"]
