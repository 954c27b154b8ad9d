"""Jobs that can never start are refused, and so are the templates of such jobs; if a job may start, there is a
warning."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from scheduler.api.kinds import CRON_JOB, JOB_TEMPLATE, VCJOB, Kind
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation
from scheduler.webhooks.mistakes import warnings_of
from scheduler.webhooks.routes import admit, routes
from tests.unit.webhooks.job.vcjobs import CLUSTER, SETTINGS, pod_spec, refusal, stored, task, vcjob

WAIT = {"pytorch": ["--wait-master-enabled"]}
ON_WORKERS = {"dependsOn": {"name": ["worker"]}}
CIRCLE = (
    "the job can never start: task master waits for 2 ready Pods of task worker (dependsOn), "
    "task worker waits for task master (plugin pytorch, --wait-master-enabled); "
    "minAvailable is 3, and 0 of 3 Pods can start"
)
RAY = "argument '--haed' is unknown; allowed are --head, --headContainer"


def circle(**spec: Any) -> Json:
    return vcjob(task("master", **ON_WORKERS), task("worker", 2), plugins=WAIT, **spec)


def template_of(kind: Kind, job: Json, **metadata: Any) -> Json:
    spec = job["spec"] if kind is JOB_TEMPLATE else {"schedule": "@hourly", "jobTemplate": {"spec": job["spec"]}}
    return {"metadata": {"name": "t", **metadata}, "spec": spec}


def decided(kind: Kind, new: Json, old: Json | None = None) -> str:
    operation = Operation.UPDATE if old else Operation.CREATE
    return admit(AdmissionRequest(operation, kind, "default", "t", new, old or {}), CLUSTER, SETTINGS, routes()).refusal


def warned(kind: Kind, new: Json, old: Json | None = None) -> list[str]:
    operation = Operation.UPDATE if old else Operation.CREATE
    return warnings_of(AdmissionRequest(operation, kind, "default", "t", new, old or {}), CLUSTER, SETTINGS)


def test_tasks_that_wait_for_each_other_because_of_a_plugin_are_refused() -> None:
    assert f"spec.tasks: {CIRCLE}" in refusal(circle())
    usual = vcjob(task("master"), task("worker", 2, dependsOn={"name": ["master"]}), plugins=WAIT)
    assert refusal(usual) == ""


def test_a_circle_of_dependencies_is_reported_once() -> None:
    job = vcjob(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]}))
    assert refusal(job) == ("job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);")


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"pytorch": ["--wait-master"]}, "plugin pytorch: argument '--wait-master' is unknown"),
        ({"mpi": ["--master=w", "--port=ssh"]}, "plugin mpi: argument --port='ssh' must be a whole number"),
        ({"svc": ["--publish-not-ready-addresses=yes"]}, "argument --publish-not-ready-addresses='yes' must be true"),
        ({"ssh": ["--ssh-key-type=dsa"]}, "plugin ssh: argument --ssh-key-type='dsa' must be one of ed25519, rsa"),
        ({"env": ["x"]}, "plugin env: argument 'x' is unknown; it takes none"),
        ({"ray": ["--haed=w"]}, f"plugin ray: {RAY}"),
        ({"ray": []}, "plugin ray: the job has no task 'head'; name it by --head"),
        ({"ray": ["--head=w"]}, "plugin ray: task w has no container 'head'; name it by --headContainer"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(plugins: Json, message: str) -> None:
    text = refusal(vcjob(task(), plugins=plugins))
    assert "spec.plugins: plugin " in text and message in text


@pytest.mark.parametrize("flag", ["--ssh-privat-key", "--ssh-private-key"])
def test_a_private_key_is_in_no_refusal(flag: str) -> None:
    text = refusal(vcjob(task(), plugins={"ssh": [f"{flag}=SECRET"]}))
    assert text and "SECRET" not in text


KEY = "plugin ssh: argument --ssh-private-key must be a private key in PEM without a password"


def pem(form: PrivateFormat, password: bytes | None = None) -> str:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, form, encryption).decode()


@pytest.mark.parametrize(
    "key",
    [
        "none",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        pem(PrivateFormat.OpenSSH)[:120],
        pem(PrivateFormat.PKCS8).replace("PRIVATE", "PUBLIC"),
        pem(PrivateFormat.PKCS8, b"secret"),
    ],
    ids=["no PEM", "no key in it", "cut off", "another kind of PEM", "with a password"],
)
@pytest.mark.parametrize("kind", [VCJOB, JOB_TEMPLATE, CRON_JOB])
def test_a_private_key_that_cannot_be_read_is_refused(kind: Kind, key: str) -> None:
    job = vcjob(task(), plugins={"ssh": [f"--ssh-private-key={key}"]})
    assert KEY in (refusal(job) if kind is VCJOB else decided(kind, template_of(kind, job)))
    with_public = vcjob(task(), plugins={"ssh": [f"--ssh-private-key={key}", "--ssh-public-key=ssh-rsa AAAA me"]})
    assert refusal(with_public) == ""


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8], ids=str)
def test_a_private_key_that_can_be_read_is_accepted(form: PrivateFormat) -> None:
    assert refusal(vcjob(task(), plugins={"ssh": [f"--ssh-private-key={pem(form)}"]})) == ""


@pytest.mark.parametrize("kind", [JOB_TEMPLATE, CRON_JOB])
@pytest.mark.parametrize(
    ("job", "message"),
    [
        (circle(), CIRCLE),
        (vcjob(task("a", dependsOn={"name": ["b"]})), "task a depends on b, and the job has no task of this name"),
        (vcjob(task(), minAvailable=2), "job 'minAvailable' should not be greater than total replicas in tasks"),
        (vcjob(task(), plugins={"pytroch": []}), "unable to find job plugin: pytroch"),
        (vcjob(task(), plugins={"mpi": []}), "The specified mpi master task was not found"),
        (vcjob(task(), plugins={"pytorch": ["x"]}), "plugin pytorch: argument 'x' is unknown"),
        (vcjob(task(replicas="two")), "spec.tasks[0].replicas: expected an integer, got a string"),
    ],
)
def test_templates_of_jobs_that_can_never_start_are_refused(kind: Kind, job: Json, message: str) -> None:
    assert message in decided(kind, template_of(kind, job))


@pytest.mark.parametrize("kind", [JOB_TEMPLATE, CRON_JOB])
@pytest.mark.parametrize("job", [vcjob(task()), vcjob(task(), queue="later"), vcjob(task(template={"spec": {}}))])
def test_what_may_change_before_a_job_is_created_is_no_reason_to_refuse_its_template(kind: Kind, job: Json) -> None:
    assert decided(kind, template_of(kind, job)) == ""


@pytest.mark.parametrize("kind", [JOB_TEMPLATE, CRON_JOB])
def test_a_stored_template_can_be_labelled_and_mended(kind: Kind) -> None:
    bad, good = template_of(kind, circle()), template_of(kind, vcjob(task()))
    assert decided(kind, template_of(kind, circle(), labels={"a": "b"}), bad) == ""
    assert decided(kind, good, bad) == ""
    assert CIRCLE in decided(kind, bad, good)


@pytest.mark.parametrize(
    ("kind", "path"), [(VCJOB, "spec"), (JOB_TEMPLATE, "spec"), (CRON_JOB, "spec.jobTemplate.spec")]
)
def test_tasks_that_may_never_start_are_a_warning(kind: Kind, path: str) -> None:
    containers = [{"name": "head", "image": "x"}, {"name": "worker", "image": "x"}]
    template = {"spec": pod_spec(containers=containers)}
    on_workers = {"dependsOn": {"name": ["worker"]}}
    job = vcjob(task("head", template=template, **on_workers), task("worker", 2, template), plugins={"ray": []})
    new = job if kind is VCJOB else template_of(kind, job)
    assert decided(kind, new) == ""
    assert warned(kind, new) == [
        f"{path}.tasks: tasks head, worker may never start: task head waits for 2 ready Pods of task worker "
        "(dependsOn), containers of task worker fail without task head (plugin ray)"
    ]


def test_an_update_after_which_a_job_could_not_start_is_a_warning_because_it_may_run() -> None:
    old = stored(vcjob(task("master", **ON_WORKERS), task("worker", 2, minAvailable=0), minAvailable=1, plugins=WAIT))
    new = stored(circle(minAvailable=3))
    old["metadata"]["uid"] = new["metadata"]["uid"] = "u"
    assert decided(VCJOB, new, old) == ""
    assert warned(VCJOB, new, old) == [f"spec.tasks: {CIRCLE}"]


def test_a_stored_job_without_defaults_is_taken_as_it_is() -> None:
    """Without minAvailable, no task waits for another one."""
    job = circle()
    assert warned(VCJOB, {**job, "metadata": {"name": "j", "uid": "u"}}) == []
