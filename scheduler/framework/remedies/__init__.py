"""What plugins add to their refusals: details with numbers, and changes that might help.

``explain`` asks for both and tries the changes on copies of the cluster, so it depends on no plugin. A plugin registers
functions with ``registry``; they receive ``evidence`` and return ``adjustments``.
"""
