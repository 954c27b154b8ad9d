"""Where the scheduler meets a cluster: ``kube`` is a real API server, ``memory`` a simulated one.

Both feed the same cache and carry out the same decisions; the session cannot tell them apart.
"""
