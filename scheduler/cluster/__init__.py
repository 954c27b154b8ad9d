"""The connection of the scheduler to a cluster: ``kube`` to a real API server, ``memory`` to a simulated one.

Both update the same cache and carry out the same decisions; sessions are independent of which one is used.
"""
