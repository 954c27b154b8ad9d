"""Chooses the alternative of a vcjob whose tasks list several accelerators (``api.card_alternatives``).

The whole gang uses one alternative, and its Pods do not exist before one is chosen. So each alternative is tried: the
plugins are asked whether they admit the job with it, and Pods as the controller would create them are placed in a
statement that is discarded. The first alternative with quota and nodes is chosen; without any, the first whose nodes
are released by terminating Pods, and then the first with quota, so that actions which evict can make room for it. The
nodes that a chosen gang would get are held until the action ends, so that two jobs do not choose the same nodes.

The choice is an annotation of the PodGroup. The controller prepares the PodGroup for it, and only then is the job
admitted. A job whose Pods fit nowhere, while another alternative fits, is put back into its queue if none of its Pods
has a node, and chooses again in the next session.
"""

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.actions.placement.gang import pending_by_sub_job, place_gang
from scheduler.actions.placement.placer import Placer
from scheduler.api.card_alternatives import GangAlternative, parse_gangs
from scheduler.api.decisions import group_ref
from scheduler.api.job import INQUEUE, PENDING, TRIAL_MARK, GroupCondition, Job
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_GANGS,
    CARD_REQUEST,
    CONDITION_ALTERNATIVE,
    EVENT_ALTERNATIVE,
    EVENT_NORMAL,
    ORDERED_TASKS,
    PREPARED_ALTERNATIVE,
    REASON_CHOSEN,
    REASON_NONE_ADMITTED,
    REASON_PUT_BACK,
)
from scheduler.api.reasons import Malformed
from scheduler.api.sub_job import sub_group_minimum, sub_jobs_of
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.api.times import seconds_of
from scheduler.framework.session import Session
from scheduler.framework.topology import set_tier_limits
from scheduler.framework.virtual_tasks import VirtualClasses, virtual_tasks
from scheduler.framework.waiting import origin_reason, tried_with_success

TRIAL_PODS: Final = 20_000
"""Pods that do not exist, of one namespace, that a session tries to place."""
PATIENCE: Final = 10.0
"""Seconds for which the Pods of a job wait, at least, before the job is put back to choose another alternative."""
CHOSEN: Final = "chosen"


class Fit(IntEnum):
    """How well an alternative fits, the worst first."""

    REFUSED = 0
    """The job is not admitted to its queue with it."""
    WAITS = 1
    """The job is admitted, but nodes or quota have no room for its Pods."""
    LATER = 2
    """The Pods get nodes when Pods that terminate are gone."""
    NOW = 3


class Answer(msgspec.Struct, frozen=True):
    """How an alternative fits in this session."""

    name: str
    fit: Fit
    reason: str = ""
    """Why it does not fit now, or ""."""
    job: Job | None = None
    """The job with it, as plugins were asked; None: they were not."""
    nodes: tuple[tuple[int, TaskClass, int], ...] = ()
    """Row of a node, class, and number of Pods that would get the node."""


def best(answers: Sequence[Answer]) -> Answer:
    """The alternative to choose: the one that fits best; of several, the preferred one."""
    return max(answers, key=lambda answer: answer.fit)


def report(answers: Sequence[Answer], chosen: str) -> str:
    """A line for each alternative: its name, and why it does not fit or that it is chosen."""
    return "\n".join(
        f"{each.name}: {'; '.join(filter(None, (CHOSEN if each.name == chosen else '', each.reason)))}"
        for each in answers
    )


class AlternativeChooser:
    """The choices of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._placer = Placer(session, remember_failures=True)
        self._held: list[tuple[int, TaskClass, int]] = []
        self._failed: dict[tuple[object, ...], Answer] = {}
        """Job without Pods, and alternative -> why nodes have no room. Equal jobs have none later in the action either:
        nodes are only taken meanwhile."""
        self._tried: Counter[str] = Counter()
        """Namespace -> number of Pods that were tried and do not exist."""
        self._classes = session.memo(VirtualClasses, (), lambda _: VirtualClasses())
        self._classes.session_opened(session.dimensions)

    def close(self) -> None:
        """Releases the nodes that were held for chosen gangs."""
        for row, cls, number in self._held:
            self._session.nodes.hold(row, cls, -number)
        self._held.clear()

    def _hold(self, answer: Answer) -> None:
        for row, cls, number in answer.nodes:
            self._session.nodes.hold(row, cls, number)
        self._held += answer.nodes

    def _gangs(self, job: Job) -> Sequence[GangAlternative]:
        """The alternatives of a job, the preferred one first; none if it has no choice."""
        text = job.annotations.get(CARD_GANGS)
        if text is None:
            return ()
        gangs, problem = parse_gangs(text)
        if problem:
            field = f"metadata.annotations[{CARD_GANGS}]"
            self._session.malformed_field(Malformed("PodGroup", job.namespace, job.name, field, problem))
        return gangs

    # --- admission ---
    def admits(self, job: Job) -> bool:
        """Whether the job is admitted to its queue now. Records the alternative that it is to use: its PodGroup has to
        be prepared for it first."""
        session, gangs = self._session, self._gangs(job)
        if not gangs:
            return not job.declares_resources or session.job_enqueueable(job)
        prepared = job.annotations.get(PREPARED_ALTERNATIVE, "")
        if not _may_choose(job):
            job.alternative = prepared
            return session.job_enqueueable(job)
        if any(not _is_of(task, prepared) for task in job.tasks()):
            return False  # the watch has not delivered yet that these Pods are deleted
        answers = []
        for gang in gangs:
            answers.append(self._answer(job, gang, prepared))
            if answers[-1].fit is Fit.NOW:
                break
        chosen = best(answers)
        job.changed = True
        if chosen.fit is Fit.REFUSED or chosen.job is None:
            self._condition(job, "False", REASON_NONE_ADMITTED, report(answers, ""))
            for answer in answers:
                for refusal in answer.job.refusals if answer.job is not None else ():
                    text = f"alternative {answer.name}: {refusal.message}"
                    session.refuse(job, replace(refusal, message=text), restates=refusal)
            return False
        job.alternative = chosen.name
        text = report(answers, chosen.name)
        self._condition(job, "True", REASON_CHOSEN, text)
        if job.annotations.get(CARD_ALTERNATIVE) != chosen.name:
            session.event(group_ref(job), EVENT_NORMAL, EVENT_ALTERNATIVE, text)
        self._hold(chosen)
        if chosen.name == prepared:
            return True
        with session.with_trial_job(chosen.job):  # no other job of this session gets its quota
            session.job_enqueued(chosen.job)
        return False

    def _condition(self, job: Job, status: str, reason: str, message: str) -> None:
        job.new_conditions += (GroupCondition(CONDITION_ALTERNATIVE, reason, message, status),)

    def _answer(self, job: Job, gang: GangAlternative, prepared: str) -> Answer:
        """Tries an alternative."""
        asked = self._asked(job, gang, prepared)
        with self._session.with_trial_job(asked):
            admitted = self._session.job_enqueueable(asked)
        if not admitted:
            reasons = dict.fromkeys(refusal.message for refusal in asked.refusals)
            return Answer(gang.name, Fit.REFUSED, "; ".join(reasons) or "a plugin does not admit it", asked)
        return self._placed(asked, gang)

    def _asked(self, job: Job, gang: GangAlternative, prepared: str) -> Job:
        """A job for a trial of an alternative: with the Pods of the job if they are of it, else without any."""
        asked = copy.copy(job)
        asked.clear_records()
        asked.key, asked.changed, asked.remembered = f"{job.key}{TRIAL_MARK}{gang.name}", True, None
        if gang.name != prepared or not _has_all_pods(job, prepared):
            self._set_gang(asked, gang)
        return asked

    def _set_gang(self, asked: Job, gang: GangAlternative) -> None:
        """Sets the minimums of an alternative, and removes the Pods."""
        spec, session = gang.spec, self._session
        zeros = session.dimensions.zeros()
        own = (CARD_REQUEST, ORDERED_TASKS)
        annotations = {key: text for key, text in asked.annotations.items() if key not in own}
        asked.annotations = {**annotations, CARD_REQUEST: gang.card_request} if gang.card_request else annotations
        asked.min_member, asked.role_minimum = spec.min_member, spec.min_task_member or {}
        amounts = spec.min_resources or {}
        known = {name: amount for name, amount in amounts.items() if session.dimensions.find(name) is not None}
        asked.min_resources = asked.reservation_limit = session.dimensions.vector(known)
        asked.min_resource_list = amounts
        asked.by_status = {}
        asked.allocated, asked.pending, asked.pipelined = zeros, zeros, zeros
        asked.gated, asked.pending_best_effort, asked.admission = None, 0, None
        asked.topology = spec.network_topology
        asked.sub_jobs, asked.sub_job_of, asked.sub_group_minimum = {}, {}, None

    # --- nodes ---
    def _placed(self, asked: Job, gang: GangAlternative) -> Answer:
        """Places the gang of an admitted alternative, and takes the placements back."""
        if asked.by_status:
            return self._try_nodes(asked, gang)
        labels, namespace = tuple(sorted(asked.labels.items())), asked.namespace
        key = (namespace, asked.queue, labels, asked.annotations[CARD_GANGS], gang.name)
        known = self._failed.get(key)
        if known is not None:
            return replace(known, job=asked)
        if self._tried[namespace] + gang.pods > TRIAL_PODS:
            text = f"nodes were not tried: a session tries at most {TRIAL_PODS} Pods of namespace {namespace}"
            return Answer(gang.name, Fit.WAITS, text, asked)
        self._tried[namespace] += gang.pods
        answer = self._try_nodes(asked, gang)
        if answer.fit is Fit.WAITS:
            self._failed[key] = answer
        return answer

    def _try_nodes(self, asked: Job, gang: GangAlternative) -> Answer:
        session = self._session
        absent = [name for name in _resources(gang) if session.dimensions.find(name) is None]
        if absent:
            return Answer(gang.name, Fit.WAITS, f"no node has {' or '.join(absent)}", asked)
        trial, queue = self._trial(asked, gang), session.queues[asked.queue]
        with session.with_trial_job(trial):
            refusal = session.job_valid(trial)
            if refusal is not None:
                return Answer(gang.name, Fit.WAITS, refusal.message, asked)
            work = pending_by_sub_job(session, trial)
            statement = place_gang(session, self._placer, queue, trial, work)[0] if work else None
            nodes = tuple(_nodes_of(trial))
            fit = Fit.WAITS
            if session.job_ready(trial):
                fit = Fit.NOW
            elif statement and session.job_pipelined(trial):
                fit = Fit.LATER
            if statement is not None:
                statement.discard()
            if fit is Fit.NOW:
                return Answer(gang.name, fit, "", asked, nodes)
            if fit is Fit.LATER:
                return Answer(gang.name, fit, "its Pods get nodes when Pods that terminate are gone", asked)
            found, why = tried_with_success(trial), origin_reason(trial).removeprefix(":").strip()
            text = f"{found} of {trial.min_member} Pods find a node"
            return Answer(gang.name, fit, f"{text}: {why}" if why else text, asked)

    def _trial(self, asked: Job, gang: GangAlternative) -> Job:
        """A job with the Pods of the gang, or with copies of the job's Pods, that exist only in this session. Plugins
        keep what they know of a job by its key, so it has another key than the job without Pods."""
        trial = copy.copy(asked)
        trial.clear_records()
        trial.key, trial.phase = f"{asked.key}{TRIAL_MARK}pods", INQUEUE
        trial._placed = trial._nominated = None
        if asked.by_status:
            pending = asked.of(TaskStatus.PENDING).items()
            trial.by_status = {TaskStatus.PENDING: {uid: replace(task, job=trial.key) for uid, task in pending}}
        else:
            trial.by_status = {TaskStatus.PENDING: virtual_tasks(trial, gang, self._classes)}
            zeros = self._session.dimensions.zeros()
            counts = Counter(task.cls for task in trial.tasks())
            trial.pending = sum((cls.request * number for cls, number in counts.items()), zeros)
            trial.pending_best_effort = sum(number for cls, number in counts.items() if cls.best_effort)
        spec = gang.spec
        if spec.network_topology is not None or spec.sub_group_policy:
            trial.sub_jobs = sub_jobs_of(trial.key, spec, trial.tasks())
            trial.sub_job_of = {uid: sub_job for sub_job in trial.sub_jobs.values() for uid in sub_job.tasks}
            trial.sub_group_minimum = sub_group_minimum(spec.sub_group_policy) if spec.sub_group_policy else None
            self._session.malformed += set_tier_limits([trial], self._session.hyper_nodes)
        return trial

    # --- for explanations ---
    def answers(self, job: Job) -> list[Answer]:
        """How each alternative of a job fits, also those after the chosen one; none for a job that has no choice or has
        nodes. For an admitted job the admission is not asked, because its own reservation would count."""
        prepared = job.annotations.get(PREPARED_ALTERNATIVE, "")
        if not _may_choose(job):
            return []
        if job.waiting_for_queue:
            return [self._answer(job, gang, prepared) for gang in self._gangs(job)]
        return [self._placed(self._asked(job, gang, prepared), gang) for gang in self._gangs(job)]

    # --- another choice ---
    def put_back(self) -> None:
        """Puts jobs back into their queues whose Pods fit nowhere while another alternative fits. They choose in the
        next session, when nothing is reserved for them any more."""
        session = self._session
        waiting = [
            job for job in session.active_jobs.values() if CARD_GANGS in job.annotations and _waits_for_nodes(job)
        ]
        for job in sorted((job for job in waiting if job.queue in session.queues), key=session.job_key):
            prepared = job.annotations.get(PREPARED_ALTERNATIVE, "")
            gangs = {gang.name: gang for gang in self._gangs(job)}
            if prepared not in gangs or job.annotations.get(CARD_ALTERNATIVE) != prepared:
                continue
            answer = self._placed(self._asked(job, gangs[prepared], prepared), gangs[prepared])
            if answer.fit >= Fit.LATER:
                self._hold(answer)
                continue
            if not _has_all_pods(job, prepared):
                continue
            others = (gang for name, gang in gangs.items() if name != prepared)
            tried = (self._placed(self._asked(job, gang, prepared), gang) for gang in others)
            fitting = next((each for each in tried if each.fit is Fit.NOW), None)
            if fitting is not None and self._has_waited(job):
                self._hold(fitting)
                job.phase, job.changed = PENDING, True
                self._condition(job, "False", REASON_PUT_BACK, report([answer, fitting], ""))

    def _has_waited(self, job: Job) -> bool:
        times = [task.creation for task in job.tasks()]
        times += [seconds_of(c.last_transition_time) for c in job.conditions if c.type == CONDITION_ALTERNATIVE]
        return self._session.now - max(times) >= PATIENCE


def try_alternatives(session: Session, job: Job) -> list[Answer]:
    """How each alternative of a job that waits fits in a session, which is as before afterwards."""
    if CARD_GANGS not in job.annotations or job.queue not in session.queues:
        return []
    return AlternativeChooser(session).answers(job)


def _may_choose(job: Job) -> bool:
    """Whether no Pod of the job has had a node."""
    return job.by_status.keys() <= {TaskStatus.PENDING}


def _has_all_pods(job: Job, alternative: str) -> bool:
    """Whether the Pods that the job needs exist, and are of an alternative."""
    pending = job.of(TaskStatus.PENDING).values()
    return len(pending) >= max(job.min_member, 1) and all(_is_of(task, alternative) for task in pending)


def _is_of(task: Task, alternative: str) -> bool:
    return task.cls.annotations.get(CARD_ALTERNATIVE, alternative) == alternative


def _waits_for_nodes(job: Job) -> bool:
    """Whether an admitted job waits, and none of its Pods has a node or will get one after evictions."""
    if job.phase != INQUEUE or not _may_choose(job):
        return False
    return not any(task.nominated or task.gated for task in job.of(TaskStatus.PENDING).values())


def _nodes_of(job: Job) -> Iterator[tuple[int, TaskClass, int]]:
    placed = job.of(TaskStatus.ALLOCATED).values()
    for (row, cls), number in Counter((job.placed[task.uid], task.cls) for task in placed).items():
        yield row, cls, number


def _resources(gang: GangAlternative) -> list[str]:
    """The resources that the Pods of a gang request."""
    names: dict[str, None] = {}
    for role in gang.roles:
        for container in (*role.spec.containers, *(role.spec.init_containers or ())):
            names |= dict.fromkeys((container.resources.requests if container.resources else None) or ())
    return list(names)
