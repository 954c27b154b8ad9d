"""The alternatives of a vcjob whose tasks list several accelerators, each with why it does not fit."""

from scheduler.actions.alternatives import CHOSEN, Answer, Fit, try_alternatives
from scheduler.api.card_alternatives import alternative_reasons, parse_gangs
from scheduler.api.job import Job
from scheduler.api.names import CARD_ALTERNATIVE, CARD_GANGS
from scheduler.explain.explanation import AlternativeState
from scheduler.framework.session import Session

FITS, NO_FIT, NOT_TRIED = "fits", "does not fit", "not tried"


def alternatives_of(job: Job, session: Session | None) -> tuple[AlternativeState, ...]:
    """The alternatives of a job, the preferred one first; none if it has no choice. ``session``: a closed session, in
    which those of a job that waits are tried again, also those after the chosen one. None, or if the job has nodes:
    what the scheduler wrote when it chose."""
    names = [gang.name for gang in parse_gangs(job.annotations.get(CARD_GANGS, "[]"))[0]]
    chosen = job.alternative or job.annotations.get(CARD_ALTERNATIVE, "")
    found = {} if session is None else {answer.name: answer for answer in try_alternatives(session, job)}
    written = alternative_reasons((condition.type, condition.message) for condition in job.conditions)
    return tuple(
        _tried(found[name], chosen) if name in found else _written(name, written.get(name), chosen) for name in names
    )


def _tried(answer: Answer, chosen: str) -> AlternativeState:
    state = CHOSEN if answer.name == chosen else FITS if answer.fit is Fit.NOW else NO_FIT
    return AlternativeState(answer.name, state, answer.reason)


def _written(name: str, text: str | None, chosen: str) -> AlternativeState:
    """``text``: the line about the alternative in the condition of the PodGroup; None: there is none."""
    reason = (text or "").removeprefix(CHOSEN).removeprefix("; ")
    state = CHOSEN if name == chosen else NOT_TRIED if text is None else NO_FIT if reason else FITS
    return AlternativeState(name, state, reason)
