"""Finds the smallest changes that let a job run, by trials.

The search tries each plan of the catalogue alone, and reduces one that works (``smallest_amounts``). If no plan works
alone, several obstacles exist: the search tries all plans at once, leaves out those that are not needed, least
preferred first, and continues with the gates that remain after them. Plans that reduce the job's own requests come
last.

A trial takes a tenth of a second on a large cluster, so the search skips plans that cannot help: for Pods that are
larger than any node it skips plans that change neither nodes nor Pods, and where all plans together fail it tries none
of them alone unless nothing else is found.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.api.job import INQUEUE, Job
from scheduler.api.kinds import POD_GROUP
from scheduler.cluster.memory import Simulation
from scheduler.explain.changes import catalogue
from scheduler.explain.explanation import Change
from scheduler.explain.gates import gates, sorted_gates
from scheduler.explain.smallest_amounts import ATTEMPTS, SmallestAmounts, VerifiedChange
from scheduler.explain.target import Goal
from scheduler.explain.traced_session import TracedSession
from scheduler.explain.trials import OutOfTrialsError, TrialRunner
from scheduler.explain.unconsidered import refused_pods
from scheduler.framework.remedies.adjustments import REDISTRIBUTING, Adjustment, ChangeKind, Edit, Key, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import RemedyError

MAX_CHANGES: Final = 3
"""The search ends when it has found this many changes."""
_MAX_ROUNDS: Final = 4
"""The maximum number of rounds in which plans are added to reveal further obstacles."""
_MIN_JOINED: Final = 2
"""Below this number of plans, they are tried one by one without trying all of them together first."""
_OF_PODS: Final = frozenset({ChangeKind.GATES, ChangeKind.REQUEST})
"""Kinds that change the Pods of the job."""
_EXCLUSIVE: Final = frozenset({ChangeKind.QUEUE_OF_JOB})
"""Kinds of which a change can contain only one plan."""


def smallest_changes(settled: Simulation, goal: Goal, pod: str) -> tuple[list[Change], list[RemedyError]]:
    """Changes that let the job run, preferred ones first, and the remedies of plugins that raised an exception. The
    last session of ``settled`` is a TracedSession."""
    search = _Search(settled, goal, pod)
    while True:
        try:
            return search.run(), search.remedy_errors
        except RemedyError as error:
            search.remedy_errors.append(error)  # search again without this remedy; results of trials are kept


class _Search:
    def __init__(self, settled: Simulation, goal: Goal, pod: str) -> None:
        self._settled = settled
        self._goal = goal
        self._trials = TrialRunner(settled, goal, pod)
        self._amounts = SmallestAmounts(self._trials)
        self.remedy_errors: list[RemedyError] = []
        """Remedies that raised an exception; they are left out."""

    def run(self) -> list[Change]:
        found: list[VerifiedChange] = []
        evidence = self._evidence(self._settled)
        plans = [] if evidence is None else self._plans(evidence)
        if evidence is not None and self._goal.pods_follow and not evidence.job.size:
            plans = _merged(plans, self._plans_after_admission(evidence.job))
        too_large_for_nodes = evidence is not None and evidence.too_large_for_nodes
        others = [plan for plan in plans if not _reduces_requests(plan)]
        useful = [] if too_large_for_nodes and all(map(_only_redistributes, others)) else others
        try:
            self._try_each(useful, found)
            if not found:
                found += self._try_together(useful, _reduces_requests)
            self._try_each([plan for plan in plans if _reduces_requests(plan)], found)
            if not found:
                found += self._try_together(plans)
            if not found:
                self._try_each(useful, found, all_at_once=False)
        except OutOfTrialsError:
            pass
        return [each.change for each in found]

    def _try_each(self, plans: list[Plan], found: list[VerifiedChange], *, all_at_once: bool = True) -> None:
        """Adds the plans that work alone to ``found``, at most one for each combination of kinds.

        ``all_at_once``: skip plans that fail even together at their maximum amounts. Checked after the first plan, and
        for the plans of equal kinds after each plan that fails.
        """
        left = deque(plans)
        first = True
        while left and len(found) < MAX_CHANGES:
            plan = left.popleft()
            if _is_covered(plan, found):
                continue
            minimal = self._amounts.minimized(plan)
            if minimal is not None and not any(minimal.change.kinds == known.change.kinds for known in found):
                found.append(minimal)
            if all_at_once and first:
                left = deque(self._worth_trying([other for other in left if not _is_covered(other, found)], found))
            elif all_at_once and minimal is None:
                alike = [other for other in left if _kinds(other) == _kinds(plan)]
                promising = self._worth_trying(alike, found)
                left = deque(other for other in left if other not in alike or other in promising)
            first = False

    def _worth_trying(self, plans: list[Plan], found: Sequence[VerifiedChange]) -> list[Plan]:
        """The plans without those that fail even together. Together they work, without a trial, if they contain a found
        change."""
        joined = [plan for plan in plans if not _kinds(plan) & _EXCLUSIVE]
        together = _distinct(joined)
        at_most = {adjustment.key: adjustment.most for adjustment in together}
        if len(joined) < _MIN_JOINED or any(known.is_within(at_most) for known in found):
            return plans
        if not self._trials.fails([adjustment.at(adjustment.most) for adjustment in together]):
            return plans
        return [plan for plan in plans if plan not in joined]

    def _evidence(self, simulation: Simulation) -> Evidence | None:
        """The evidence of the last session; None: the job no longer exists."""
        session = simulation.last.session if simulation.last is not None else None
        job = session.jobs.get(self._goal.job) if session is not None else None
        if job is None or not isinstance(session, TracedSession):
            return None
        found = [*refused_pods(simulation.cluster.server, self._goal.job), *gates(session, job, self._goal)]
        return Evidence(self._settled.cluster.server, session, job, self._goal, sorted_gates(found))

    def _plans(self, evidence: Evidence) -> list[Plan]:
        return list(catalogue(evidence, {error.function for error in self.remedy_errors}))

    def _plans_after_admission(self, job: Job) -> list[Plan]:
        """Plans for the Pods that a job gets when it is admitted."""
        admission = Step("admit it", (Edit(POD_GROUP, job.namespace, job.name, _admitted),))
        after = self._trials.after([admission])
        evidence = None if after is None else self._evidence(after)
        return [] if evidence is None else [plan for plan in self._plans(evidence) if not _kinds(plan) & _OF_PODS]

    def _try_together(
        self, plans: list[Plan], skipped: Callable[[Plan], bool] = lambda plan: False
    ) -> list[VerifiedChange]:
        """Tries all plans at once, except the ``skipped`` ones, and adds the plans that the remaining gates suggest."""
        tried: list[Plan] = []
        for _ in range(_MAX_ROUNDS):
            known = {adjustment.key for plan in tried for adjustment in plan}
            added = [
                left
                for plan in plans
                if (left := tuple(adjustment for adjustment in plan if adjustment.key not in known))
            ]
            if not added:
                return []
            tried += added
            adjustments = [adjustment for plan in tried for adjustment in plan]
            at_maximum = [adjustment.at(adjustment.most) for adjustment in adjustments]
            if self._trials.works(at_maximum):
                attempt = self._amounts.attempt(adjustments)
                needed = sorted(
                    (adjustment for plan in self._without_unneeded_plans(tried, attempt) for adjustment in plan),
                    key=lambda adjustment: adjustment.preference,
                )
                minimal = self._amounts.minimized(tuple(needed))
                return [] if minimal is None else [minimal]
            after = self._trials.after(at_maximum)
            evidence = None if after is None else self._evidence(after)
            plans = [] if evidence is None else [plan for plan in self._plans(evidence) if not skipped(plan)]
        return []

    def _without_unneeded_plans(self, tried: list[Plan], attempt: int) -> list[Plan]:
        """The plans without those that are not needed, tried from the least preferred one on.

        ``attempt``: the first attempt at which all of them work; a subset does not work at an earlier one.
        """
        left = list(tried)
        ordered = sorted(enumerate(tried), key=lambda entry: (entry[1][0].preference, entry[0]), reverse=True)
        for _, plan in ordered:
            without = [other for other in left if other is not plan]
            if (
                without
                and self._amounts.attempt([adjustment for other in without for adjustment in other], attempt) < ATTEMPTS
            ):
                left = without
        return left


def _admitted(group: Raw) -> Raw:
    group["status"] = {**(group.get("status") or {}), "phase": INQUEUE}
    return group


def _merged(plans: list[Plan], later: list[Plan]) -> list[Plan]:
    """Merges both lists, in the order of kinds. If both have a plan for the same adjustments, the later one stays,
    because it knows better amounts."""
    known = {_keys(plan) for plan in later}
    return sorted([*(plan for plan in plans if _keys(plan) not in known), *later], key=lambda plan: plan[0].preference)


def _keys(plan: Plan) -> frozenset[Key]:
    return frozenset(adjustment.key for adjustment in plan)


def _is_covered(plan: Plan, found: Sequence[VerifiedChange]) -> bool:
    """Whether a found change has the kinds of the plan or is contained in it."""
    kinds = {kind.value for kind in _kinds(plan)}
    return any(set(known.change.kinds) == kinds or known.is_part_of(plan) for known in found)


def _kinds(plan: Plan) -> set[ChangeKind]:
    return {adjustment.kind for adjustment in plan}


def _distinct(plans: Sequence[Plan]) -> list[Adjustment]:
    """The distinct adjustments of several plans."""
    return list({adjustment.key: adjustment for plan in plans for adjustment in plan}.values())


def _only_redistributes(plan: Plan) -> bool:
    """Whether a plan only changes who gets the existing resources."""
    return _kinds(plan) <= REDISTRIBUTING


def _reduces_requests(plan: Plan) -> bool:
    """Whether a plan reduces the job's own requests, which is the last resort."""
    return any(adjustment.kind is ChangeKind.REQUEST for adjustment in plan)
