"""Tasks for Pods that do not exist: a session places them on trial, to learn whether a gang would fit.

Their classes are kept from session to session, and equal gangs share them, so that sessions do not search nodes for
each of them. The ids of these classes are larger than those of any cache.
"""

from itertools import count
from typing import Final

import msgspec

from scheduler.api.card_alternatives import AlternativeRole, GangAlternative
from scheduler.api.job import Job
from scheduler.api.names import JOB_NAME, PARTITION_ID, TASK_SPEC
from scheduler.api.pod_amounts import nonzero_request, pod_request
from scheduler.api.resource import Dimensions, is_empty
from scheduler.api.task import MountedClaim, Task, TaskClass, TaskStatus

_FIRST_ID: Final = 2**40
_MOST_BYTES: Final = 2**24
"""The size of the classes that are kept, as JSON."""
_encode = msgspec.json.Encoder(order="deterministic").encode


class VirtualClasses:
    """The classes of tasks that do not exist."""

    def __init__(self) -> None:
        self._classes: dict[bytes, TaskClass] = {}
        self._bytes = 0
        self._ids = count(_FIRST_ID)
        self._dimensions = Dimensions()
        self._counted: set[int] = set()
        """Ids of the classes whose request has the positions of this session."""

    def session_opened(self, dimensions: Dimensions) -> None:
        """A session with these dimensions begins."""
        self._dimensions = dimensions
        self._counted.clear()
        if self._bytes > _MOST_BYTES:
            self._classes.clear()
            self._bytes = 0

    def of(self, job: Job, role: AlternativeRole) -> TaskClass:
        """The class of the Pods of a role. All resources that they request must have a position."""
        spec, labels = role.spec, role.labels
        if spec.affinity is not None or spec.topology_spread_constraints:
            labels = {**labels, JOB_NAME: job.owner_name}  # their selectors name the Pods of the job
        key = _encode((job.namespace, labels, role.annotations, spec))
        cls = self._classes.get(key)
        if cls is None:
            volumes = (volume.persistent_volume_claim for volume in spec.volumes or ())
            claims = tuple(MountedClaim(claim.claim_name) for claim in volumes if claim is not None)
            cls = TaskClass(
                id=next(self._ids),
                namespace=job.namespace,
                labels=labels,
                annotations=role.annotations,
                spec=spec,
                request=self._dimensions.nothing,
                best_effort=False,
                nonzero=(0.0, 0.0),
                claims=claims,
                shape_id=-1,
            )
            if claims:
                cls.shape_id = cls.id
            self._classes[key] = cls
            self._bytes += len(key)
        if cls.id not in self._counted:
            self._counted.add(cls.id)
            cls.request = pod_request(spec, self._dimensions)
            cls.best_effort, cls.nonzero = is_empty(cls.request), nonzero_request(spec, cls.request)
        return cls


def virtual_tasks(job: Job, gang: GangAlternative, classes: VirtualClasses) -> dict[str, Task]:
    """The pending tasks of a gang, by uid. ``job``: the job that they are tried for."""
    tasks: dict[str, Task] = {}
    for role in gang.roles:
        cls = classes.of(job, role)
        for index in range(role.pods):
            labels = {**role.labels, TASK_SPEC: role.name}
            if role.partition_size:
                labels[PARTITION_ID] = str(index // role.partition_size)
            name = f"{job.owner_name or job.name}-{role.name}-{index}"
            task = Task(
                uid=f"{job.key}/{role.name}-{index}",
                namespace=job.namespace,
                name=name,
                job=job.key,
                cls=cls,
                role=role.name,
                status=TaskStatus.PENDING,
                node="",
                priority=1,
                creation=job.creation,
                index=index,
                gated=False,
                preemptable=False,
                nominated="",
                annotations={},
                resource_version="",
                ours=True,
                labels=labels,
            )
            tasks[task.uid] = task
    return tasks
