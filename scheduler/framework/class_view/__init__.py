"""The nodes as the tasks of one class see them: where they fit, how good each place is, and the best places for a run.

``view`` is the entry: it keeps columns over the ``candidates`` and their order, places ``runs`` of equal tasks, and has
a ``plan`` for the tasks to come. ``refusals`` says why nodes are refused.
"""
