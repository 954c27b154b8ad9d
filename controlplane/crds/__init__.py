"""Our resource definitions, written short: one YAML file per kind, `shared.yaml` for what several of them have.

`controlplane.crds.generate` makes the full definitions in `deploy/crds` from them.
"""
