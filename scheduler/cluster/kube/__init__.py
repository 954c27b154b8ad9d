"""A real API server. ``transport`` sends requests, ``watch`` brings objects in, ``write`` carries decisions out,
``process`` is what every role has in common; ``scheduler``, ``operator`` and ``admission`` are the roles.
"""
