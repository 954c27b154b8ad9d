"""Admission of JobFlows (Volcano's /jobflows/validate): the number of flows, and their dependencies, which form a
DAG. JobTemplates may follow later, so a missing one is a warning."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from scheduler.api.batch import MAX_FLOW_STEPS, Flow, JobFlow
from scheduler.api.messages import did_you_mean
from scheduler.api.printable import printable
from scheduler.api.start_order import order_problem
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, ValidationResult, WebhookSettings
from scheduler.webhooks.decoding import DecodingError, decode, validator
from scheduler.webhooks.fields import dns_subdomain, invalid, qualified_name
from scheduler.webhooks.mistakes import MAX_LENGTH, MAX_WARNINGS

_NOT_A_DAG: Final = "jobflow Flow is not DAG"
_MAX_NAME: Final = 253
"""Characters of a name in a message."""
_MAX_COMPARED: Final = 100
_MAX_COMPARED_LENGTH: Final = 63
"""The number and the length of names among which one that resembles the first missing one is sought: it takes time."""


@validator(JobFlow, of_spec=True)
def validate(
    flow: JobFlow, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings
) -> str | ValidationResult:
    """The problem of the steps or of their dependency graph, or the JobTemplates of the steps."""
    steps = flow.spec.flows or ()
    if len(steps) > MAX_FLOW_STEPS:
        return f"spec.flows: Too many: {len(steps)}: must have at most {MAX_FLOW_STEPS} items"
    problem = order_problem(steps)
    if problem is None:
        name_problem = next(_name_problems(flow.metadata.name, steps), "")
        return name_problem or ValidationResult(job_templates=_new_steps(steps, request))
    if problem.cycle:
        names = ", ".join(problem.cycle[1:])
        return f"{_NOT_A_DAG}: none of these can start, because each waits for another: {names}"
    return f"{_NOT_A_DAG}: vertex is not defined: {problem.undefined[1]}"


def _name_problems(flow: str, steps: Sequence[Flow]) -> Iterator[str]:
    """Why the jobs of steps cannot be created. ``flow``: the name of the flow; "" if the API server generates it."""
    for index, step in enumerate(steps if flow else ()):
        job = f"{flow}-{step.name}"
        problems = qualified_name(job) or dns_subdomain(job)
        if problems:
            detail = f"no job can have the name {job[:_MAX_NAME]}: {'; '.join(problems)}"
            yield invalid(f"spec.flows[{index}].name", step.name[:_MAX_NAME], detail)


def _new_steps(steps: Sequence[Flow], request: AdmissionRequest) -> list[tuple[int, str]]:
    """The steps that an update adds. What an earlier step waits for is in the status of the flow."""
    try:
        before = {step.name for step in decode(request.old, JobFlow).spec.flows or ()}
    except DecodingError:
        before = set()
    return [(index, step.name) for index, step in enumerate(steps) if step.name not in before]


def missing_templates(named: Iterable[tuple[int, str]], existing: Collection[str]) -> list[str]:
    """The warnings about JobTemplates that do not exist, at most ten. ``named``: by steps, each with its index;
    ``existing``: those of the namespace."""
    return [printable(each)[:MAX_LENGTH] for each in islice(_missing(named, existing), MAX_WARNINGS)]


def _missing(named: Iterable[tuple[int, str]], existing: Collection[str]) -> Iterator[str]:
    similar = [name for name in existing if len(name) <= _MAX_COMPARED_LENGTH]
    for index, name in named:
        if name not in existing:
            hint = (
                did_you_mean(name, similar)
                if len(similar) <= _MAX_COMPARED and len(name) <= _MAX_COMPARED_LENGTH
                else ""
            )
            yield f"spec.flows[{index}].name: there is no JobTemplate {name[:253]!r}; the step waits for it{hint}"
            similar = []
