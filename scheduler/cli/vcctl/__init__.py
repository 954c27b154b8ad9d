"""``vcctl``: the command line of Volcano, with its verbs, flags, columns, messages and exit codes.

Its commands call the operations of ``volcano-py`` and differ from these in flags and output only.
"""
