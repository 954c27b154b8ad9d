import pytest

from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError, wanted_objects
from tests.unit.controllers.job.plugins.vcjobs import env, main_env, objects, pod, task, vcjob

TRAIN = vcjob("train", task("ps"), task("worker", 2), svc=[])
OWNED_BY_TRAIN = [
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "uid-of-train",
        "controller": True,
        "blockOwnerDeletion": True,
    }
]
PODS_OF_TRAIN = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}


def from_map(key: str) -> dict[str, dict[str, str]]:
    return {"configMapKeyRef": {"key": key, "name": "train-svc"}}


def test_the_config_map_lists_the_hosts_of_every_task() -> None:
    assert objects(TRAIN)["ConfigMap", "train-svc"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "train-svc", "namespace": "default", "ownerReferences": OWNED_BY_TRAIN},
        "data": {
            "VC_PS_HOSTS": "train-ps-0.train",
            "VC_PS_NUM": "1",
            "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train",
            "VC_WORKER_NUM": "2",
            "ps.host": "train-ps-0.train",
            "worker.host": "train-worker-0.train\ntrain-worker-1.train",
        },
    }


def test_the_service_is_headless_and_selects_the_pods_of_the_job() -> None:
    assert objects(TRAIN)["Service", "train"] == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "train", "namespace": "default", "ownerReferences": OWNED_BY_TRAIN},
        "spec": {"clusterIP": "None", "selector": PODS_OF_TRAIN},
    }


def test_the_network_policy_lets_only_the_pods_of_the_job_in() -> None:
    assert objects(TRAIN)["NetworkPolicy", "train"] == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "train", "namespace": "default", "ownerReferences": OWNED_BY_TRAIN},
        "spec": {
            "podSelector": {"matchLabels": PODS_OF_TRAIN},
            "ingress": [{"from": [{"podSelector": {"matchLabels": PODS_OF_TRAIN}}]}],
            "policyTypes": ["Ingress"],
        },
    }


def test_a_pod_gets_name_domain_files_and_variables() -> None:
    made = pod(TRAIN, "worker", 1)["spec"]
    assert (made["hostname"], made["subdomain"]) == ("train-worker-1", "train")
    assert made["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc", "defaultMode": 420}}]
    (container,) = made["containers"]
    assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "train-svc"}]
    assert env(container) == {
        "VC_PS_HOSTS": from_map("VC_PS_HOSTS"),
        "VC_PS_NUM": from_map("VC_PS_NUM"),
        "VC_WORKER_HOSTS": from_map("VC_WORKER_HOSTS"),
        "VC_WORKER_NUM": from_map("VC_WORKER_NUM"),
    }


def test_init_containers_get_files_and_variables_too() -> None:
    job = vcjob("train", task("worker", initContainers=[{"name": "prepare"}]), svc=[])
    (prepare,) = pod(job, "worker")["spec"]["initContainers"]
    assert prepare["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "train-svc"}]
    assert env(prepare) == {
        "VC_WORKER_HOSTS": from_map("VC_WORKER_HOSTS"),
        "VC_WORKER_NUM": from_map("VC_WORKER_NUM"),
    }


def test_dashes_of_a_task_become_underscores() -> None:
    job = vcjob("train", task("my-ps"), svc=[])
    assert objects(job)["ConfigMap", "train-svc"]["data"] == {
        "my_ps.host": "train-my-ps-0.train",
        "VC_MY_PS_HOSTS": "train-my-ps-0.train",
        "VC_MY_PS_NUM": "1",
    }
    assert set(main_env(job, "my-ps")) == {"VC_MY_PS_HOSTS", "VC_MY_PS_NUM"}


def test_a_hostname_fixed_in_the_template_stays_and_is_listed_once() -> None:
    job = vcjob("train", task("worker", 3, hostname="fixed", subdomain="domain"), svc=[])
    made = pod(job, "worker", 2)["spec"]
    assert (made["hostname"], made["subdomain"]) == ("fixed", "domain")
    assert objects(job)["ConfigMap", "train-svc"]["data"] == {
        "worker.host": "fixed.domain",
        "VC_WORKER_HOSTS": "fixed.domain",
        "VC_WORKER_NUM": "1",
    }


def test_a_subdomain_fixed_in_the_template_is_in_every_host() -> None:
    job = vcjob("train", task("worker", 2, subdomain="domain"), svc=[])
    data = objects(job)["ConfigMap", "train-svc"]["data"]
    assert data["VC_WORKER_HOSTS"] == "train-worker-0.domain,train-worker-1.domain"


def test_a_task_without_replicas_has_empty_lists() -> None:
    data = objects(vcjob("train", task("ps", 0), svc=[]))["ConfigMap", "train-svc"]["data"]
    assert data == {"ps.host": "", "VC_PS_HOSTS": "", "VC_PS_NUM": "0"}


def test_only_the_config_map_follows_the_job() -> None:
    wanted = wanted_objects(make_plugins(TRAIN), TRAIN)
    assert {each.kind.name for each in wanted if each.refresh} == {"ConfigMap"}


def test_scaling_changes_the_lists() -> None:
    scaled = vcjob("train", task("ps"), task("worker", 3), svc=[])
    before, after = (objects(job)["ConfigMap", "train-svc"]["data"] for job in (TRAIN, scaled))
    assert after == before | {
        "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train,train-worker-2.train",
        "VC_WORKER_NUM": "3",
        "worker.host": "train-worker-0.train\ntrain-worker-1.train\ntrain-worker-2.train",
    }


def test_addresses_can_be_published_before_pods_are_ready() -> None:
    job = vcjob("train", task("ps"), svc=["--publish-not-ready-addresses=true"])
    assert objects(job)["Service", "train"]["spec"]["publishNotReadyAddresses"] is True


def test_the_network_policy_can_be_left_out() -> None:
    job = vcjob("train", task("ps"), svc=["--disable-network-policy"])
    assert set(objects(job)) == {("ConfigMap", "train-svc"), ("Service", "train")}


def test_the_variables_can_be_left_out() -> None:
    job = vcjob("train", task("ps"), svc=["--inject-hosts-env=false"])
    (container,) = pod(job, "ps")["spec"]["containers"]
    assert env(container) == {}
    assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "train-svc"}]


def test_what_the_template_has_already_is_not_added_twice() -> None:
    volume = {"name": "train-svc", "configMap": {"name": "train-svc"}}
    mine = {"name": "main", "volumeMounts": [{"name": "train-svc", "mountPath": "/etc/volcano", "readOnly": True}]}
    made = pod(vcjob("train", task("ps", 1, mine, volumes=[volume]), svc=[]), "ps")["spec"]
    assert made["volumes"] == [volume]
    assert made["containers"][0]["volumeMounts"] == mine["volumeMounts"]


def test_more_hosts_than_an_object_can_list_are_refused_without_being_listed() -> None:
    job = vcjob("train", task("worker", 2_000_000_000), svc=[])
    with pytest.raises(JobPluginError, match=r"^plugin svc: the names of the 2000000000 replicas of task worker take"):
        objects(job)
