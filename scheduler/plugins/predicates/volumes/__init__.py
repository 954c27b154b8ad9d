"""The filters and scores for volumes: a Pod runs where its claims' volumes are accessible, can be bound, or can be
provisioned.

``claim_states`` computes the state of the claims of a class, ``plan`` the volumes that the claims would get on each
node; ``binder`` reserves volumes, ``preparations`` has the writes before a binding, and ``attachments`` the number of
volumes that a node can attach.
"""
