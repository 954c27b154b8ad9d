"""Admission of JobFlows (Volcano's /jobflows/validate): the number of flows, and their dependencies, which form a
DAG."""

from graphlib import CycleError, TopologicalSorter
from typing import Final

from scheduler.api.batch import MAX_FLOW_STEPS, JobFlow
from scheduler.webhooks.contract import ClusterView, Request, Settings
from scheduler.webhooks.decoding import spec_validator

_NOT_A_DAG: Final = "jobflow Flow is not DAG"


@spec_validator(JobFlow)
def validate(flow: JobFlow, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """The problem of the steps or of their dependency graph, or ""."""
    steps = flow.spec.flows or ()
    if len(steps) > MAX_FLOW_STEPS:
        return f"spec.flows: Too many: {len(steps)}: must have at most {MAX_FLOW_STEPS} items"
    graph: dict[str, list[str]] = {}
    for each in steps:  # a step that occurs twice waits for the targets of both
        graph.setdefault(each.name, []).extend((each.depends_on.targets or []) if each.depends_on else [])
    for targets in graph.values():
        for target in targets:
            if target not in graph:
                return f"{_NOT_A_DAG}: vertex is not defined: {target}"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return f"{_NOT_A_DAG}: none of these can start, because each waits for another: {', '.join(error.args[1][1:])}"
    return ""
