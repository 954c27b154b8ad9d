"""Situations of queues that reclaim their deserved amounts from each other."""

from typing import Any, Final

from scheduler.api.kinds import QUEUE, VCJOB
from tests.integration.live.case import HELD, Case


def _deserves(cpu: int) -> dict[str, Any]:
    return {"deserved": {"cpu": str(cpu)}}


def _borrowed(case: Case, size: int, deserved: int, minimum: int = 1, *, held: bool = False, **spec: Any) -> None:
    """A job fills the node, and the queue ``other`` does not get what it deserves."""
    case.steps[0][0] = case.queue(**_deserves(size - deserved), **spec)
    task = case.task("w", size, 1, minimum, annotations=HELD if held else None)
    case.add(case.further_queue("other", **_deserves(deserved)), case.node("n1", size), case.vcjob("lent", task))


def queue_reclaims_what_it_deserves(case: Case) -> None:
    size = case.random.randint(3, 5)
    _borrowed(case, size, case.random.randint(1, size - 1), minimum=case.random.randint(1, size))
    asked = case.random.randint(1, size - 1)
    case.changes = [case.vcjob("claims", case.task("w", asked, 1), queue=f"{case.name}-other")]


def victims_terminate(case: Case) -> None:
    size = case.random.randint(3, 5)
    _borrowed(case, size, size - 1, held=True)
    claims = case.vcjob("claims", case.task("w", case.random.randint(1, size - 1), 1), queue=f"{case.name}-other")
    case.then(claims)
    case.changes = [case.delete(VCJOB, case.random.choice(["lent", "claims"]))]


def queue_does_not_give_back(case: Case) -> None:
    _borrowed(case, 4, 2, reclaimable=False)
    case.then(case.vcjob("claims", case.task("w", 2, 1), queue=f"{case.name}-other"))
    case.waiting = ("job", "claims")
    if case.random.random() < 0.5:
        case.advised = True
    else:
        case.changes = [case.merge(QUEUE, case.name, spec={"reclaimable": True})]


def what_a_queue_deserves_is_raised(case: Case) -> None:
    _borrowed(case, 4, 1)
    case.then(case.vcjob("first", case.task("w", 1, 1), queue=f"{case.name}-other"))
    case.then(case.vcjob("second", case.task("w", case.random.randint(1, 2), 1), queue=f"{case.name}-other"))
    case.waiting = ("job", "second")
    if case.random.random() < 0.3:
        case.advised = True
        return
    raised = case.merge(QUEUE, f"{case.name}-other", spec=_deserves(3))
    lowered = case.merge(QUEUE, case.name, spec=_deserves(1))
    case.changes = case.random.choice([[raised], [lowered, raised]])


def queue_of_a_reclaimed_job_gets_a_node(case: Case) -> None:
    size = case.random.randint(2, 4)
    _borrowed(case, size, size - 1)
    case.then(case.vcjob("claims", case.task("w", size - 1, 1), queue=f"{case.name}-other"))
    case.changes = [case.random.choice([case.node("n2", size), case.delete(VCJOB, "claims")])]


QUEUES: Final = (
    queue_reclaims_what_it_deserves,
    victims_terminate,
    queue_does_not_give_back,
    what_a_queue_deserves_is_raised,
    queue_of_a_reclaimed_job_gets_a_node,
)
