"""How jobs use the chips that they request (``npu_requests``): the family of each job, and the constraints of the
families on jobs."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduler.api.job import Job
from scheduler.api.names import (
    ACCELERATOR_TYPE,
    NPU_CORE,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
    SP_BLOCK,
    SUB_HEALTHY_STRATEGY,
)
from scheduler.api.reasons import Refusal
from scheduler.api.resource import format_amount
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.family import ChipFamily, ChipRequest, JobRequest
from scheduler.plugins.ascend.npu_requests import (
    MILLI,
    NPUS,
    ChipResource,
    NpuRequests,
    active_tasks,
    units,
    unserved,
    without_whole_nodes,
)
from scheduler.plugins.ascend.rescheduling.policy import SubHealth, has_policy, policy_of
from scheduler.plugins.ascend.resolve import JOB_LABELS, resolve
from scheduler.plugins.ascend.settings import AscendSettings
from scheduler.plugins.ascend.shares import RESOURCES as SHARED_RESOURCES
from scheduler.plugins.ascend.shares import SHARING, ShareUse, labels_of, quota_of
from scheduler.plugins.ascend.vnpu.models import REASON_REQUEST, ChipModel, request_of, resource_of
from scheduler.plugins.ascend.vnpu.models import check as check_request
from scheduler.plugins.support.vnpu_failures import AvoidedChips

_SCHEDULER: Final = "scheduler"
"""The task of a framework's scheduler, which requests no chips."""


class ChipUse(NamedTuple):
    """How the Pods of a job use chips."""

    family: ChipFamily
    resource: ChipResource
    several: bool
    """More than one active Pod of the job requests chips."""
    block: int = 0
    """Nodes that have to be in one super pod; 0: nodes are chosen one by one."""
    blocks: int = 0
    job: str = ""
    """Key of the job, if its nodes are chosen together."""
    failure: str = ""
    """Why no nodes could be chosen for the job in this session, or ""."""
    avoids_sub_health: bool = False
    """The job does not use sub-healthy nodes."""
    by_policy: bool = False
    """The annotation ``huawei.com/schedule_policy`` has chosen the family, not the traits of the job."""

    def request(self, chips: int) -> ChipRequest:
        return ChipRequest(chips, self.several)

    @property
    def without_faults(self) -> bool:
        """The job does not use chips with a network fault."""
        several = self.blocks > 1 if self.family.super_pods else self.several
        return several and self.family.avoids_network_faults


class CoreUse(NamedTuple):
    """How the Pods of a job use parts of chips, or whole chips by their AI cores."""

    resource: ChipResource
    """The resource of the chips that are divided."""
    avoids_sub_health: bool = False
    """The job does not use sub-healthy nodes."""
    avoided: AvoidedChips = ()
    """The chips of which the job gets no part."""


NpuUse = ChipUse | CoreUse | ShareUse


class _Asking(NamedTuple):
    """The active tasks of a job that request NPUs."""

    position: int
    """The index of the job's resource in resource vectors."""
    tasks: list[Task]
    """The tasks that request this resource."""
    number: int
    """The number of tasks that request it or another one."""
    others: list[Task]
    """The tasks that request none."""


class ChipDemand(NpuRequests):
    """How the jobs of one session use chips."""

    def __init__(
        self,
        session: PluginSession,
        settings: AscendSettings,
        owned_elsewhere: Collection[str],
        models: Container[ChipModel],
        avoided: Callable[[Job], AvoidedChips],
    ) -> None:
        """``owned_elsewhere``: resources about which another plugin decides; ``models``: the models of the chips in the
        cluster that can be divided; ``avoided``: returns the chips of which a job gets no part."""
        super().__init__(session.dimensions, owned_elsewhere)
        self._report = session.malformed_field
        self._models = models
        self._avoided = avoided
        self._super_pod_size = settings.super_pod_size
        self._preset_virtual = settings.preset_virtual
        self.basis = settings.super_pod_size, tuple(sorted(owned_elsewhere)), settings.preset_virtual, self._npus
        """All that the use of chips by a job depends on, except the job."""
        self._known: dict[str, NpuUse | Refusal | None] = {}

    def npu_use(self, job: Job) -> NpuUse | None:
        """Returns how the job uses chips; None if it uses none, or if it is refused."""
        found = self._of(job)
        return None if isinstance(found, Refusal) else found

    def use(self, job: Job) -> ChipUse | None:
        """Returns how the job uses whole chips; None if it uses none, or if it is refused."""
        found = self._of(job)
        return found if isinstance(found, ChipUse) else None

    def use_with(self, job: Job, changed: Mapping[str, str]) -> ChipUse | Refusal | None:
        """Returns how a job would use whole chips with another trait or policy, or why it would be refused; None: it
        uses none. ``changed``: trait or ``huawei.com/schedule_policy`` -> its value."""
        found = self._compute_use(job, changed)
        return found if isinstance(found, ChipUse | Refusal) else None

    def resource(self, job: Job) -> ChipResource | None:
        """Returns the resource of the whole chips that pending Pods of a job request; None if there are none or
        several."""
        asked = {d for d in self._chips if job.pending[d] > 0}
        return self._chips[asked.pop()] if len(asked) == 1 else None

    def check(self, job: Job) -> Refusal | None:
        """Returns a refusal if no free chips could make the job schedulable. Of jobs with no pending request for chips
        only those are refused that request the number 0."""
        if not any(job.pending[d] for d in self._watched):
            return job.remember("requests for no NPU", self.basis, partial(self._check_zero, job))
        found = self._of(job)
        return found if isinstance(found, Refusal) else None

    def _of(self, job: Job) -> NpuUse | Refusal | None:
        if job.key not in self._known:
            found = job.remember("use of chips", self.basis, partial(self._compute_use, job))
            if isinstance(found, _Asking):
                self._known[job.key] = self._compute_core_use(job, found)
            elif isinstance(found, ChipUse | ShareUse):
                self._known[job.key] = found._replace(avoids_sub_health=self._avoids_sub_health(job))
            else:
                self._known[job.key] = found
        return self._known[job.key]

    # --- checking ---
    def _compute_use(
        self, job: Job, changed: Mapping[str, str] = MappingProxyType({})
    ) -> ChipUse | ShareUse | _Asking | Refusal | None:
        """Returns how a job uses chips, or why it is refused; None: it requests none. For AI cores it returns the tasks
        that request them. ``changed``: the parameter of ``use_with``."""
        asking = None if self._asks_for_none(job) else self._asking(job)
        if not isinstance(asking, _Asking) or asking.position == self._cores:
            return asking
        resource, policies = self._chips[asking.position], _policies(job, asking.tasks)
        if SCHEDULE_POLICY in changed:
            policies[SCHEDULE_POLICY] = changed[SCHEDULE_POLICY]
        if policies.get(SCHEDULE_POLICY) == SHARING and resource.name in SHARED_RESOURCES:
            quota = quota_of(labels_of(job, active_tasks(job)))
            if isinstance(quota, str):
                return Refusal(REASON_REQUEST, quota)
            refusal = _first_refusal(asking.tasks, lambda cls: unserved(cls.spec, resource.name))
            return refusal or ShareUse(resource, quota, asking.number, job.key)
        traits = _traits(job, asking.tasks) | {key: value for key, value in changed.items() if key != SCHEDULE_POLICY}
        return self._whole_use(job, asking, policies, traits)

    def _asking(self, job: Job) -> _Asking | Refusal | None:
        """Returns the tasks of a job that request NPUs, or why they may not request so; None: there are none."""
        tasks = active_tasks(job)
        classes = {task.cls.id: task.cls for task in tasks}
        for cls in classes.values():
            refusal = self._check_virtual(cls)
            if refusal is not None:
                return refusal
        npu_classes = {cls.id for cls in classes.values() if self.asks(cls) or self.cores(cls)}
        if not npu_classes:
            return None
        whole_or_cores = (*self._chips, *(() if self._cores is None else (self._cores,)))
        asked = {number: {d for d in whole_or_cores if units(classes[number], d)} for number in npu_classes}
        for positions in asked.values():
            if len(positions) > 1:
                names = " and ".join(sorted(self._names[d] for d in positions))
                return Refusal(REASON_REQUEST, f"a Pod of the job asks for {names}; it may ask for one of them only")
        # Of several resources one is the job's. Pods that ask for another one find no node.
        position = min((d for positions in asked.values() for d in positions), key=self._names.__getitem__)
        asking = [task for task in tasks if task.cls.id in npu_classes]
        own = [task for task in asking if position in asked[task.cls.id]]
        return _Asking(position, own, len(asking), [task for task in tasks if task.cls.id not in npu_classes])

    def _whole_use(
        self, job: Job, asking: _Asking, policies: Mapping[str, str], traits: Mapping[str, str]
    ) -> ChipUse | Refusal:
        """Returns how a job uses whole chips, or why its family refuses it."""
        resource = self._chips[asking.position]
        family = resolve(resource.name, policies, traits)
        if isinstance(family, Refusal):
            return family
        refusal = self._check_pods(family, asking)
        if refusal is not None:
            return refusal
        chips = {cls: self.chips(cls, resource) for cls in {task.cls for task in asking.tasks}}
        pods = {task.key: chips[task.cls] for task in asking.tasks}
        block = _block_chips(policies.get(SP_BLOCK), sum(pods.values())) if family.super_pods else 0
        if block is None:
            return Refusal(REASON_REQUEST, f"{SP_BLOCK}={policies[SP_BLOCK][:64]} is not a positive number")
        schedulers = sum(map(_may_ask_for_none, asking.others))
        without_chips = len(asking.others) - schedulers
        problem = family.check(
            JobRequest(pods, without_chips, schedulers, resource.name, traits, block, self._super_pod_size)
        )
        if problem:
            return Refusal(REASON_REQUEST, problem)
        by_policy = policies.get(SCHEDULE_POLICY) in family.policies
        use = ChipUse(family, resource, asking.number > 1, by_policy=by_policy)
        if not family.super_pods:
            return use
        nodes = max(block // family.chips, 1)
        return use._replace(block=nodes, blocks=-(-len(asking.tasks) // nodes), job=job.key)

    def _check_zero(self, job: Job) -> Refusal | None:
        """Refuses a job whose Pods request no NPU, if a pending Pod requests 0 of them explicitly."""
        if self.is_npu_job(job):
            return None
        pending = list(job.by_status.get(TaskStatus.PENDING, {}).values())
        for task in {task.cls.id: task for task in reversed(pending)}.values():  # the first of each class
            for container in (*task.cls.spec.containers, *(task.cls.spec.init_containers or ())):
                requests = container.resources.requests if container.resources is not None else None
                name = next((name for name in requests or () if NPUS.fullmatch(name)), None)
                if name is not None and self._names_npu(name):
                    return Refusal(REASON_REQUEST, f"Pod {task.key} asks for 0 {name}")
        return None

    def _avoids_sub_health(self, job: Job) -> bool:
        """Whether the job does not use sub-healthy nodes."""
        first = next(job.tasks(), None)
        if SUB_HEALTHY_STRATEGY not in job.labels and (first is None or SUB_HEALTHY_STRATEGY not in first.labels):
            return False
        policy = policy_of(job)
        for problem in () if has_policy(job) else policy.problems:  # else the rescheduler reports them
            self._report(problem)
        return policy.sub_health is not SubHealth.IGNORE

    def _compute_core_use(self, job: Job, found: _Asking) -> CoreUse | Refusal:
        position, asking = found.position, found.tasks
        resource = resource_of(job, asking, preset=self._preset_virtual)
        if isinstance(resource, Refusal):
            return resource
        other = next((task for task in active_tasks(job) if not self.cores(task.cls)), None)
        if other is not None:
            text = f"Pod {other.key} asks for no {NPU_CORE}; every Pod of a job with {NPU_CORE} has to"
            return Refusal(REASON_REQUEST, text)
        refusal = _first_refusal(asking, lambda cls: unserved(cls.spec, NPU_CORE))
        if refusal is not None:
            return refusal
        for task in {task.cls.id: task for task in asking}.values():
            cores, amount = self.cores(task.cls), task.cls.request[position]
            refusal = check_request(resource, self._models, task, request_of(task.cls, cores))
            if amount != cores * MILLI:
                text = f"Pod {task.key} asks for {format_amount(NPU_CORE, amount)} {NPU_CORE}, not for whole AI cores"
                refusal = Refusal(REASON_REQUEST, text)
            if refusal is not None:
                return refusal
        return CoreUse(ChipResource(resource), self._avoids_sub_health(job), self._avoided(job))

    def _check_virtual(self, cls: TaskClass) -> Refusal | None:
        """Refuses tasks that request virtual devices, but not exactly one."""
        requests = [d for d in self.virtual if units(cls, d)]
        if not requests or (len(requests) == 1 and cls.request[requests[0]] == MILLI):
            return None
        what = ", ".join(f"{format_amount(self._names[d], cls.request[d])} {self._names[d]}" for d in requests)
        return Refusal(REASON_REQUEST, f"a Pod asks for {what}; it may ask for exactly 1 virtual device")

    def _check_pods(self, family: ChipFamily, asking: _Asking) -> Refusal | None:
        """Refuses Pods that request a number of chips that Pods of the family may not request, or whose init containers
        request chips with which no node could serve them."""
        position, resource = asking.position, self._chips[asking.position]

        def size_problem(cls: TaskClass) -> str:
            amount, chips = cls.request[position], units(cls, position)
            if amount == chips * MILLI and chips in family.sizes:
                return ""
            asked = f"{format_amount(resource.name, amount)} {resource.name}"
            return f"asks for {asked}; a Pod of {family.title} may ask for {family.sizes_text()}"

        return _first_refusal(asking.tasks, size_problem) or _first_refusal(
            asking.tasks, lambda cls: without_whole_nodes(cls.spec, resource.name, self.chips(cls, resource))
        )


def _first_refusal(asking: Sequence[Task], problem_of: Callable[[TaskClass], str]) -> Refusal | None:
    """Refuses the first Pod whose class has a problem. ``problem_of``: returns what Pods of a class do wrong, or ""."""
    for task in {task.cls.id: task for task in reversed(asking)}.values():  # the first of each class
        problem = problem_of(task.cls)
        if problem:
            return Refusal(REASON_REQUEST, f"Pod {task.key} {problem}")
    return None


def _block_chips(text: str | None, total: int) -> int | None:
    """Returns the chips of a block; None if the text is not a positive number."""
    if text is None:
        return total
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0 else None


def _policies(job: Job, asking: Sequence[Task]) -> dict[str, str]:
    """Returns the annotations of the PodGroup and its Pods that choose a family; those of the PodGroup take
    precedence."""
    return {
        key: annotations[key]
        for annotations in (*(task.cls.annotations for task in asking), job.annotations)
        for key in (SCHEDULE_POLICY, SP_BLOCK)
        if key in annotations
    }


def _traits(job: Job, asking: Sequence[Task]) -> dict[str, str]:
    """Returns the traits of a job. Different values of one trait are joined by ``|``, which no family has."""
    values: dict[str, dict[str, None]] = {}
    for task in {task.cls.id: task for task in asking}.values():
        wanted = (task.cls.spec.node_selector or {}).get(ACCELERATOR_TYPE)
        if wanted is not None:
            values.setdefault(ACCELERATOR_TYPE, {})[wanted or '""'] = None
    for labels in (job.labels, *(task.labels for task in asking)):
        for key in JOB_LABELS:
            if key in labels:
                values.setdefault(key, {})[labels[key]] = None
    return {trait: "|".join(found) for trait, found in values.items()}


def _may_ask_for_none(task: Task) -> bool:
    return task.role == _SCHEDULER or task.cls.annotations.get(SKIP_ASCEND_PLUGIN) == "enabled"
