"""The resource definitions of the project in a short form: one YAML file per kind, and `shared.yaml` for common parts.

`controlplane.crds.generate` makes the full definitions in `deploy/crds` from them.
"""
