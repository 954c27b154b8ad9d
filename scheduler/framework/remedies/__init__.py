"""What a plugin offers about its refusals beyond their words: details with numbers, and changes that might help.

``explain`` asks for both and tries the changes on copies of the cluster; so it knows no plugin. A plugin registers
functions with ``registry``; ``evidence`` is what they are given, ``adjustments`` what they return.
"""
