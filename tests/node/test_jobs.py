"""vcjobs whose tasks are real containers: from the start of a gang to exit codes, restarts, preemption and clean-up."""

import json
from typing import Any

import pytest

from controlplane.client import ApiError
from scheduler.api.kinds import VCJOB, object_path
from tests.integration import examples
from tests.node.stage import MPI, PYTHON, Stage, container_status, exit_codes

pytestmark = pytest.mark.node

ADD_UP = """
import os, socket, time
rank, size, address = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MASTER_ADDR"]
port = int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(("", port))
    peers = [server.accept()[0] for _ in range(size - 1)]
    print("sum", sum(int(peer.recv(16)) for peer in peers), "of", size)
else:
    while True:
        try:
            peer = socket.create_connection((address, port), 5)
            break
        except OSError:
            time.sleep(0.2)
    peer.sendall(str(rank).encode())
    peer.recv(1)
"""
READ_TF_CONFIG = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
host, port = config["cluster"]["ps"][0].split(":")
if config["task"]["type"] == "ps":
    server = socket.create_server(("", int(port)))
    while True:
        server.accept()[0].sendall(b"parameters")
while True:
    try:
        print(config["task"], socket.create_connection((host, int(port)), 5).recv(16).decode())
        break
    except OSError:
        time.sleep(0.2)
"""
CATCH_SIGTERM = """
trap 'echo begun > /marks/begun; sleep 3; echo ended > /marks/ended; exit 0' TERM
echo up > /marks/up
while :; do sleep 0.2; done
"""


def test_a_gang_runs_to_completion_with_its_index_and_hosts(stage: Stage) -> None:
    script = 'echo "$VC_TASK_INDEX"; cat /etc/volcano/worker.host'
    stage.submit("gang", stage.task("worker", script, 3), plugins={"env": [], "svc": []})
    stage.reaches("gang", "Completed")
    assert exit_codes(stage.pods_of("gang")) == [0, 0, 0]
    hosts = [f"gang-worker-{number}.gang" for number in range(3)]
    assert [stage.log(f"gang-worker-{number}").split() for number in range(3)] == [
        [str(number), *hosts] for number in range(3)
    ]


def test_tasks_reach_each_other_with_ssh(stage: Stage) -> None:
    host = "cluster-worker-0.cluster"
    master = stage.task(
        "master",
        f"until ssh {host} hostname; do sleep 1; done",
        image=MPI,
        policies=[{"event": "TaskCompleted", "action": "CompleteJob"}],
    )
    worker = stage.task("worker", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D", image=MPI)
    stage.submit("cluster", master, worker, plugins={"ssh": [], "svc": []})
    stage.reaches("cluster", "Completed")
    assert stage.log("cluster-master-0").splitlines()[-1] == "cluster-worker-0"


def test_a_process_finds_its_peers_by_the_environment_of_the_plugin_pytorch(stage: Stage) -> None:
    master = stage.task("master", ADD_UP, image=PYTHON)
    worker = stage.task("worker", ADD_UP, 2, image=PYTHON)
    options = ["--master=master", "--worker=worker", "--port=23456"]
    stage.submit("torch", master, worker, plugins={"pytorch": options})
    stage.reaches("torch", "Completed")
    assert stage.log("torch-master-0").strip() == "sum 3 of 3"


def test_a_process_finds_its_parameter_server_by_tf_config(stage: Stage) -> None:
    worker = stage.task(
        "worker", READ_TF_CONFIG, 2, image=PYTHON, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]
    )
    options = ["--ps=ps", "--worker=worker", "--port=2222"]
    stage.submit("tf", stage.task("ps", READ_TF_CONFIG, image=PYTHON), worker, plugins={"tensorflow": options})
    stage.reaches("tf", "Completed")
    assert stage.log("tf-worker-1").strip() == "{'type': 'worker', 'index': 1} parameters"


def test_mpirun_runs_on_two_pods(stage: Stage) -> None:
    """The example `mpi.yaml`, and what its processes print."""
    stage.create("mpi")
    stage.completes("demo-vc-job")
    lines = [line for line in stage.log("demo-vc-job-mpimaster-0").splitlines() if line.startswith("rank")]
    assert sorted(lines) == [f"rank {n} of 2 on demo-vc-job-mpiworker-{n}: the sum is 1" for n in range(2)]


@pytest.mark.parametrize(("code", "phase"), [(3, "Completed"), (4, "Terminated"), (5, "Failed")])
def test_the_exit_code_of_a_container_chooses_the_policy(stage: Stage, code: int, phase: str) -> None:
    policies = [{"exitCode": 3, "action": "CompleteJob"}, {"exitCode": 4, "action": "TerminateJob"}]
    stage.submit("coded", stage.task("worker", f"exit {code}"), policies=policies, maxRetry=1)
    stage.reaches("coded", phase)


def test_a_container_restarts_in_its_pod_if_its_policy_is_on_failure(stage: Stage) -> None:
    script = "echo . >> /marks/starts; test $(wc -l < /marks/starts) = 3"
    stage.submit("again", stage.task("worker", script, restartPolicy="OnFailure"))
    stage.reaches("again", "Completed")
    (pod,) = stage.pods_of("again")
    assert container_status(pod)["restartCount"] == 2
    assert stage.job("again")["status"].get("retryCount", 0) == 0


def test_restart_job_starts_every_pod_again(stage: Stage) -> None:
    script = 'echo . >> "/marks/$HOSTNAME"; sleep 1; test $(wc -l < /marks/job-a-0) = 2'
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    stage.submit("job", stage.task("a", script), stage.task("b", "echo . >> /marks/b; sleep 5"), policies=policies)
    stage.reaches("job", "Completed")
    assert (stage.marked("job-a-0"), stage.marked("b")) == (".\n.\n", ".\n.\n")
    assert stage.job("job")["status"]["retryCount"] == 1


def test_a_container_that_takes_too_much_memory_is_killed_and_its_job_fails(stage: Stage) -> None:
    limits = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    stage.submit("greedy", stage.task("worker", "tail /dev/zero", container={"resources": limits}), maxRetry=1)
    stage.reaches("greedy", "Failed")
    (pod,) = stage.pods_of("greedy")
    ended = container_status(pod)["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_an_aborted_job_lets_its_processes_end_by_themselves(stage: Stage) -> None:
    stage.submit("long", stage.task("worker", CATCH_SIGTERM, terminationGracePeriodSeconds=30))
    stage.until(lambda: stage.marked("up"))
    stage.command("AbortJob", "long")
    stage.reaches("long", "Aborted")
    stage.until(lambda: not stage.pods_of("long"))
    assert stage.marked("ended") == "ended\n"
    stage.command("ResumeJob", "long")
    stage.until(lambda: [pod["status"]["phase"] for pod in stage.pods_of("long")] == ["Running"])


def test_a_preemptor_starts_when_the_process_of_its_victim_has_handled_sigterm(stage: Stage) -> None:
    priorities = {f"{stage.namespace}-low": 10, f"{stage.namespace}-high": 100}
    for name, value in priorities.items():
        stage.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
    low, high = priorities
    whole = {"requests": {"cpu": "1500m", "memory": "32Mi"}}
    on_second: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": "node-2"},
        "container": {"resources": whole},
    }
    victim = stage.task("worker", CATCH_SIGTERM, terminationGracePeriodSeconds=30, **on_second)
    stage.submit("victim", victim, priorityClassName=low)
    stage.until(lambda: stage.marked("up"))
    preemptor = stage.task("worker", "cat /marks/ended", **on_second)
    stage.submit("preemptor", preemptor, priorityClassName=high)
    stage.reaches("preemptor", "Completed")
    assert stage.log("preemptor-worker-0") == "ended\n"
    for name in priorities:
        stage.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


def test_a_finished_job_and_its_pods_are_deleted_after_their_time(stage: Stage) -> None:
    stage.submit("brief", stage.task("worker", "true"), ttlSecondsAfterFinished=5)
    stage.reaches("brief", "Completed")

    def gone() -> bool:
        try:
            stage.job("brief")
        except ApiError as error:
            return error.status == 404 and not stage.pods_of("brief")
        return False

    stage.until(gone)


def test_a_cron_job_starts_a_job_whose_containers_run(stage: Stage) -> None:
    examples.cronjob(stage)


def test_a_job_with_a_network_policy_and_a_volume_of_its_own_reads_what_it_wrote(stage: Stage) -> None:
    path = f"{stage.marks}/volume"
    name = f"{stage.namespace}-disk"
    amounts = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    volume: dict[str, Any] = {**amounts, "capacity": {"storage": "1Gi"}, "hostPath": {"path": path}}
    volume["hostPath"]["type"] = "DirectoryOrCreate"
    stage.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    claim = {**amounts, "resources": {"requests": {"storage": "1Gi"}}}
    stage.submit(
        "writer",
        stage.task("worker", "echo kept > /data/file && cat /data/file"),
        volumes=[{"mountPath": "/data", "volumeClaim": claim}],
    )
    stage.reaches("writer", "Completed")
    assert stage.log("writer-worker-0") == "kept\n"
    assert stage.marked("volume/file") == "kept\n"
    stage.api.delete(object_path(VCJOB, stage.namespace, "writer"))
    stage.api.delete(f"/api/v1/persistentvolumes/{name}")


def test_explain_says_what_a_waiting_gang_lacks_on_real_nodes(stage: Stage) -> None:
    much = {"requests": {"cpu": "64", "memory": "32Mi"}}
    stage.submit("huge", stage.task("worker", "true", container={"resources": much}))
    stage.until(lambda: stage.phase("huge") == "Pending" and "cpu" in json.dumps(stage.messages()))
