"""Admission of JobFlows (Volcano's /jobflows/validate): the dependencies between flows form a DAG."""

from graphlib import CycleError, TopologicalSorter
from typing import Final

from scheduler.api.batch import JobFlow
from scheduler.webhooks.contract import ClusterView, Request, Settings
from scheduler.webhooks.decoding import spec_validator

_NOT_A_DAG: Final = "jobflow Flow is not DAG"


@spec_validator(JobFlow)
def validate(flow: JobFlow, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """The problem of the dependency graph, or ""."""
    graph: dict[str, list[str]] = {}
    for each in flow.spec.flows or ():  # a step that occurs twice waits for the targets of both
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
