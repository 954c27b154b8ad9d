"""Admission of JobFlows: whether their flows can be run in any order at all (Volcano's /jobflows/validate)."""

from graphlib import CycleError, TopologicalSorter
from typing import Final

from scheduler.api.batch import JobFlow
from scheduler.webhooks.contract import ClusterView, Request, Settings
from scheduler.webhooks.reading import validator

_NO_ORDER: Final = "jobflow Flow is not DAG"


@validator(JobFlow)
def validate(flow: JobFlow, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """Why there is no order, or ""."""
    graph = {each.name: (each.depends_on.targets or []) if each.depends_on else [] for each in flow.spec.flows or ()}
    for targets in graph.values():
        for target in targets:
            if target not in graph:
                return f"{_NO_ORDER}: vertex is not defined: {target}"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return _NO_ORDER
    return ""
