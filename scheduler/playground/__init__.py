"""Simulated NPU nodes: what an Ascend device plugin, NodeD, ClusterD and a kubelet do, decided by pure functions.

An independent reading of the documented formats: nothing of it is shared with the scheduler's plugins, which it tests.
``cluster.kube.playground`` carries the decisions out on a real cluster.
"""
