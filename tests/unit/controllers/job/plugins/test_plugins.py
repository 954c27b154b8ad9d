"""All plugins together: their names, and that no text of a user raises an exception other than PluginError."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api import batch
from scheduler.controllers.job.plugins import PLUGIN_NAMES, make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError, mutate_pod_by_plugins, wanted_objects
from tests.unit.controllers.job.plugins.vcjobs import objects, pod, task, vcjob


def test_the_plugins_of_volcano_are_there() -> None:
    assert {"env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"} == PLUGIN_NAMES


def test_a_job_has_the_plugins_it_names_in_the_order_of_their_names() -> None:
    job = vcjob("train", task("worker"), svc=[], env=[], ssh=[])
    assert list(make_plugins(job)) == ["env", "ssh", "svc"]


def test_a_job_without_plugins_has_none() -> None:
    assert make_plugins(batch.Job()) == {}


def test_a_plugin_named_without_arguments_has_its_defaults() -> None:
    job = vcjob("train", task("worker"))
    job.spec.plugins = {"svc": None}
    assert ("ConfigMap", "train-svc") in objects(job)


VOLCANO_FLAGS = {
    "ssh": [
        *("--ssh-key-file-path=/home/me/.ssh", "--ssh-private-key=k", "--ssh-public-key=k"),
        *("--ssh-port=1", "--no-root"),
    ],
    "svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true", "--inject-hosts-env=false"],
    "env": [],
    "hcclrank": ["--master=a", "--worker=b"],
    "mpi": ["--master=a", "--worker=b", "--port=1"],
    "pytorch": [
        *("--master=a", "--worker=b", "--port=1"),
        *("--wait-master-enabled=true", "--wait-master-timeout=600", "--wait-master-image=busybox:latest"),
    ],
    "ray": [
        *("--head=a", "--headContainer=main", "--worker=b", "--workerContainer=main", "--port=1"),
        *("--dashboardPort=2", "--clientPort=3", "--clientServerPort=3"),
    ],
    "tensorflow": ["--ps=a", "--worker=b", "--chief=c", "--evaluator=d", "--port=1"],
}
"""The names of Volcano's program and of its documents."""


@pytest.mark.parametrize("name", sorted(PLUGIN_NAMES))
def test_every_argument_of_volcano_is_accepted(name: str) -> None:
    job = vcjob("train", task("a"), task("b"), **{name: VOLCANO_FLAGS[name]})
    assert list(make_plugins(job)) == [name]


def test_an_unknown_plugin_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        JobPluginError, match=r"^plugin 'mxnet' is unknown; there are env, hcclrank, mpi, .*tensorflow$"
    ):
        make_plugins(vcjob("train", task("worker"), mxnet=[]))


def test_an_mpi_job_by_hand_with_ssh_and_svc_has_all_it_needs() -> None:
    job = vcjob("demo-vc-job", task("mpimaster"), task("mpiworker", 2), ssh=[], svc=[])
    made = pod(job, "mpimaster")["spec"]
    assert [volume["name"] for volume in made["volumes"]] == ["demo-vc-job-ssh", "demo-vc-job-svc"]
    assert [each["mountPath"] for each in made["containers"][0]["volumeMounts"]] == ["/root/.ssh", "/etc/volcano"]
    assert set(objects(job)) == {
        ("Secret", "demo-vc-job-ssh"),
        ("ConfigMap", "demo-vc-job-svc"),
        ("Service", "demo-vc-job"),
        ("NetworkPolicy", "demo-vc-job"),
    }


def test_a_malformed_template_is_refused_by_its_field() -> None:
    job = vcjob("train", task("worker", 1, {"name": "main", "env": ["A=1"]}), env=[])
    with pytest.raises(JobPluginError, match=r"^plugin env: env of the Pod template is not a list of objects$"):
        pod(job, "worker")


def test_mutating_a_pod_does_not_change_the_template_of_the_job() -> None:
    job = vcjob("train", task("worker", 2), env=[], svc=[], ssh=[], mpi=["--master=worker"], pytorch=[])
    before = copy.deepcopy(job.spec.tasks[0].template)
    pod(job, "worker")
    assert job.spec.tasks[0].template == before


FLAGS = st.sampled_from(["port", "master", "head", "ssh-private-key", "ssh-key-file-path", "inject-hosts-env", "ps"])
ARGUMENTS = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.builds(lambda dashes, flag, value: f"{dashes}{flag}={value}", st.text("-", max_size=3), FLAGS, st.text()),
        st.builds(lambda flag, value: f"--{flag}={value}", FLAGS, st.sampled_from(["1", "true", "/a", "worker", ""])),
    ),
    max_size=4,
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
CONTAINERS = JSON | st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["head", "worker"]) | JSON},
        optional={"env": JSON, "ports": JSON, "volumeMounts": JSON},
    ),
    max_size=2,
)
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "spec": JSON
        | st.fixed_dictionaries(
            {"containers": CONTAINERS},
            optional={"initContainers": CONTAINERS, "volumes": JSON, "hostname": JSON, "subdomain": JSON},
        )
    },
)
TASKS = st.lists(
    st.builds(
        batch.TaskSpec,
        name=st.sampled_from(["head", "master", "worker", "ps", ""]) | st.text(max_size=3),
        replicas=st.integers(-1, 3) | st.just(2**31 - 1),
        template=TEMPLATES,
    ),
    max_size=3,
)


@given(plugin=st.sampled_from(sorted(PLUGIN_NAMES)), arguments=ARGUMENTS, tasks=TASKS)
def test_whatever_users_write_raises_nothing_but_plugin_errors(
    plugin: str, arguments: list[str], tasks: list[batch.TaskSpec]
) -> None:
    job = vcjob("job", *tasks, **{plugin: arguments})
    with contextlib.suppress(JobPluginError):
        plugins = make_plugins(job)
        with contextlib.suppress(JobPluginError):
            wanted_objects(plugins, job)
        for each in tasks:
            with contextlib.suppress(JobPluginError):
                mutate_pod_by_plugins(
                    plugins, {"metadata": {"name": "job-0"}, **copy.deepcopy(each.template)}, each, 0, job
                )
