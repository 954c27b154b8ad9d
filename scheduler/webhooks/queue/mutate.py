"""The defaults of a queue (Volcano's /queues/mutate).

The object may have any shape: a field of a wrong type is left as it is, and ``validate`` refuses it.
"""

from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, WebhookSettings


def mutate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> Json:
    """Sets the defaults of a new queue."""
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
        queue["metadata"] = {**metadata, "annotations": _with_root(annotations)}
    return queue


def _with_root(annotations: Json) -> Json:
    """Prepends the root, of weight 1, to the hierarchy that drf reads."""
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if not (isinstance(path, str) and isinstance(weights, str) and path and weights) or path.startswith(ROOT_QUEUE):
        return annotations
    return {**annotations, HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}
