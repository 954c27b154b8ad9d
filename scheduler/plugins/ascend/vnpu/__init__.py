"""Virtual NPUs: parts of chips.

``models`` has the templates and the rules for requests, ``selection`` the choice of the chip (pure functions),
``holdings`` and ``inventory`` what is free on a node, ``ledger`` the parts in a session, and ``columns`` the filter and
the score. ``devices`` is about virtual NPUs that were created beforehand.
"""
