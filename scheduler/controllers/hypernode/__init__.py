"""hyperNode-controller: counts the nodes of HyperNodes, and makes HyperNodes from labels of Nodes."""

from scheduler.controllers.hypernode.controller import HyperNodeController

__all__ = ["HyperNodeController"]
