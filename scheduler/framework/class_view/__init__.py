"""The nodes that one class of tasks can use: where tasks fit, the scores, and the best nodes for a run.

``view`` is the entry point. It holds columns over the ``candidates`` and their order, places ``runs`` of equal tasks,
and has a ``plan`` for later tasks. ``refusals`` counts why nodes are refused.
"""
