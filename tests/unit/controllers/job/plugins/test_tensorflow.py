from tests.unit.controllers.job.plugins.vcjobs import main_env, pod, task, vcjob

CLUSTER = '{"cluster":{"ps":["tf-ps-0.tf:2222"],"worker":["tf-worker-0.tf:2222","tf-worker-1.tf:2222"]},'


def test_every_pod_knows_the_cluster_and_its_place() -> None:
    job = vcjob("tf", task("ps"), task("worker", 2), tensorflow=["--ps=ps", "--worker=worker"])
    assert main_env(job, "ps") == {"TF_CONFIG": CLUSTER + '"task":{"type":"ps","index":0}}'}
    assert main_env(job, "worker", 1) == {"TF_CONFIG": CLUSTER + '"task":{"type":"worker","index":1}}'}


def test_the_roles_are_in_order_whatever_the_order_of_the_tasks() -> None:
    names = ["--ps=a", "--worker=b", "--chief=c", "--evaluator=d", "--port=1"]
    job = vcjob("tf", task("d"), task("c"), task("b"), task("a"), tensorflow=names)
    assert main_env(job, "c") == {
        "TF_CONFIG": '{"cluster":{"ps":["tf-a-0.tf:1"],"worker":["tf-b-0.tf:1"],"chief":["tf-c-0.tf:1"],'
        '"evaluator":["tf-d-0.tf:1"]},"task":{"type":"chief","index":0}}'
    }


def test_a_role_without_hosts_is_left_out() -> None:
    job = vcjob("tf", task("ps", 0), task("worker", 2), tensorflow=[])
    assert main_env(job, "worker")["TF_CONFIG"].startswith('{"cluster":{"worker":[')


def test_a_single_pod_is_no_cluster() -> None:
    assert main_env(vcjob("tf", task("worker", 1), tensorflow=[]), "worker") == {}


def test_one_task_of_several_is_a_cluster() -> None:
    assert set(main_env(vcjob("tf", task("worker", 2), tensorflow=[]), "worker")) == {"TF_CONFIG"}


def test_a_task_without_a_role_is_called_by_its_name() -> None:
    job = vcjob("tf", task("logs"), task("worker", 2), tensorflow=[])
    assert main_env(job, "logs")["TF_CONFIG"].endswith('"task":{"type":"logs","index":0}}')


def test_no_port_is_opened() -> None:
    job = vcjob("tf", task("ps"), task("worker", 2), tensorflow=[])
    assert "ports" not in pod(job, "ps")["spec"]["containers"][0]
