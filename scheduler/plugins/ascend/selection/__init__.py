"""The algorithms that choose chips of a node: pure functions of the free chips and a request, with tables as data.

``grouped`` takes any free chips, or those of one group (ring, card, half, mesh), and ``dies`` whole cards of two dies.
An algorithm that a single family uses is in the file of the family.
"""
