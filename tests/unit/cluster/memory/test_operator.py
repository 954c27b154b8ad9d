"""The controllers on a cluster in memory."""

from scheduler.api.kinds import CONFIG_MAP, SERVICE, VCJOB
from scheduler.controllers.job import JobController
from scheduler.controllers.job.plugins import make_plugins
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.job.world import job, task


def test_objects_that_a_job_does_not_own_stay_when_the_job_finishes() -> None:
    cluster = Controlled(lambda store: [JobController(store, make_plugins)])
    meta = {"name": "j-svc", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"mine": "1"}})
    cluster.create(job(tasks=[task()], plugins={"svc": []}))
    cluster.wait(3)
    assert cluster.find(SERVICE, "j") is not None

    target = {"apiVersion": VCJOB.api_version, "kind": VCJOB.name, "name": "j"}
    order = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": "TerminateJob", "target": target}
    cluster.create(order | {"metadata": {"name": "stop", "namespace": "default"}})
    cluster.wait(5)

    assert cluster.find(SERVICE, "j") is None
    there = cluster.find(CONFIG_MAP, "j-svc")
    assert there is not None and there["data"] == {"mine": "1"}
