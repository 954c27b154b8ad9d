"""What a new queue is given that does not say it itself (Volcano's /queues/mutate).

The object may be of any shape: what is not of the shape expected is left as it is, for ``validate`` to name.
"""

from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from scheduler.webhooks.contract import ClusterView, Json, Request, Settings


def mutate(request: Request, cluster: ClusterView, settings: Settings) -> Json:
    """A new queue with its defaults."""
    queue = dict(request.object)
    spec = queue.get("spec") or {}
    if isinstance(spec, dict):
        reclaimable = spec.get("reclaimable")
        queue["spec"] = {
            **spec,
            "reclaimable": True if reclaimable is None else reclaimable,
            "weight": spec.get("weight") or 1,
        }
    metadata = queue.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(metadata, dict) and isinstance(annotations, dict):
        queue["metadata"] = {**metadata, "annotations": _below_root(annotations)}
    return queue


def _below_root(annotations: Json) -> Json:
    """The hierarchy that drf reads starts at the root, of weight 1."""
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if not (isinstance(path, str) and isinstance(weights, str) and path and weights) or path.startswith(ROOT_QUEUE):
        return annotations
    return {**annotations, HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}
