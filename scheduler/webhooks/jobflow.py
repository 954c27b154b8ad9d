"""Admission of JobFlows (Volcano's /jobflows/validate): the number of flows, and their dependencies, which form a
DAG."""

from typing import Final

from scheduler.api.batch import MAX_FLOW_STEPS, JobFlow
from scheduler.api.flow_order import order_problem
from scheduler.webhooks.contract import ClusterView, Request, Settings
from scheduler.webhooks.decoding import spec_validator

_NOT_A_DAG: Final = "jobflow Flow is not DAG"


@spec_validator(JobFlow)
def validate(flow: JobFlow, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """The problem of the steps or of their dependency graph, or ""."""
    steps = flow.spec.flows or ()
    if len(steps) > MAX_FLOW_STEPS:
        return f"spec.flows: Too many: {len(steps)}: must have at most {MAX_FLOW_STEPS} items"
    problem = order_problem(steps)
    if problem is None:
        return ""
    if problem.cycle:
        names = ", ".join(problem.cycle[1:])
        return f"{_NOT_A_DAG}: none of these can start, because each waits for another: {names}"
    return f"{_NOT_A_DAG}: vertex is not defined: {problem.undefined[1]}"
