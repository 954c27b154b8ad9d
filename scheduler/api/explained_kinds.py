"""The kinds of objects that ``explain`` knows by name: kubectl's names for them, and their resources in the API for
tenants. Plain text, so that the help of a command loads nothing else."""

from typing import Final, NamedTuple


class ExplainedKind(NamedTuple):
    """A kind of object that can be explained."""

    title: str
    resource: str
    """The plural, which is also the resource in the API for tenants."""
    constants: tuple[str, ...]
    """Constants of ``scheduler.api.kinds``, in the order in which an object of a name is looked for."""
    aliases: tuple[str, ...] = ()
    """Other names besides the plural."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.resource, self.title.lower(), *self.aliases)


EXPLAINED: Final[dict[str, ExplainedKind]] = {
    "pod": ExplainedKind("Pod", "pods", ("POD",), ("po",)),
    "podgroup": ExplainedKind("PodGroup", "podgroups", ("POD_GROUP",), ("pg",)),
    "job": ExplainedKind("Job", "jobs", ("VCJOB", "BATCH_JOB", "ACJOB"), ("vcjob", "vcjobs", "vj")),
    "acjob": ExplainedKind("AscendJob", "ascendjobs", ("ACJOB",), ("acjobs",)),
    "jobflow": ExplainedKind("JobFlow", "jobflows", ("JOB_FLOW",), ("jf",)),
    "cronjob": ExplainedKind("CronJob", "cronjobs", ("CRON_JOB",), ("cronvcjob", "cronvj")),
    "deployment": ExplainedKind("Deployment", "deployments", ("DEPLOYMENT",), ("deploy",)),
    "replicaset": ExplainedKind("ReplicaSet", "replicasets", ("REPLICA_SET",), ("rs",)),
    "statefulset": ExplainedKind("StatefulSet", "statefulsets", ("STATEFUL_SET",), ("sts",)),
    "daemonset": ExplainedKind("DaemonSet", "daemonsets", ("DAEMON_SET",), ("ds",)),
    "replicationcontroller": ExplainedKind(
        "ReplicationController", "replicationcontrollers", ("REPLICATION_CONTROLLER",), ("rc",)
    ),
}
"""Name that is shown -> the kind. A job is a vcjob, else a Job of Kubernetes, else an AscendJob, as in ``job view``."""
_BY_NAME: Final = {name: kind for kind, entry in EXPLAINED.items() for name in (kind, *entry.names)}


def explained_kind(word: str) -> str | None:
    """The key of ``EXPLAINED`` for kubectl's name of a kind, in any case (``deploy``, ``StatefulSet``), or None."""
    return _BY_NAME.get(word.lower())


def is_kind(word: str, kind: str) -> bool:
    """Whether a user's word, such as ``RayCluster``, ``rayclusters`` or ``rayclusters.ray.io``, means a kind."""
    word, kind = word.lower().partition(".")[0], kind.lower()
    return word in (kind, f"{kind}s", f"{kind}es")
