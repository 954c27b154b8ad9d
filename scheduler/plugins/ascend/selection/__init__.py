"""The algorithms that choose chips of a node: pure functions of the free chips and a request, with tables as data.

``counted`` takes any free chips, ``grouped`` those of one group (ring, card, half, mesh), ``rings`` ranks both rings
of a node together, ``paired`` takes chips of both halves, and ``dies`` takes whole cards of two dies.
"""
