"""Command lines of ``vcctl``, and the objects that they show: for the test with recorded output and for the comparison
with Volcano's program."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import yaml
from click.testing import CliRunner

from controlplane.client import Client
from scheduler.api.quantity import parse_amount
from scheduler.cli.vcctl.main import vcctl
from scheduler.cli.vcctl.single import vcancel, vjobs, vqueues, vresume, vsub, vsuspend

Raw = dict[str, Any]
CORE: Final = "/api/v1"
BATCH: Final = "/apis/batch.volcano.sh/v1alpha1"
BUS: Final = "/apis/bus.volcano.sh/v1alpha1"
FLOW: Final = "/apis/flow.volcano.sh/v1alpha1"
SCHEDULING: Final = "/apis/scheduling.volcano.sh/v1beta1"
LONG_AGO: Final = "2015-06-01T00:00:00Z"
"""Long enough for an age in years, whose length does not change for decades."""
SHOWN, OTHER, EMPTY = "vcctl-shown", "vcctl-other", "vcctl-empty"
"""Namespaces of the objects that are read."""

READS: Final = (
    "vcctl job list -n vcctl-shown",
    "vcctl job list --namespace=vcctl-shown -q vcctl-research",
    "vcctl job list -n vcctl-shown --selector rai --scheduler volcano",
    "vcctl job list -n vcctl-shown --selector absent",
    "vcctl job list -n vcctl-empty",
    "vcctl -n=vcctl-other job list extra words",
    "vcctl job list --all_namespaces --selector=vcctl-",
    "vcctl job view -n vcctl-shown -N train",
    "vcctl job view -n vcctl-shown --name vcctl-serve-with-a-long-name",
    "vcctl job view -n vcctl-shown -N absent",
    "vcctl job view",
    "vcctl queue get -n vcctl-research",
    "vcctl queue get --name vc-team",
    "vcctl queue get -n absent",
    "vcctl queue get",
    "vcctl pod list -n vcctl-shown",
    "vcctl pod list -n vcctl-shown -j train",
    "vcctl pod list -n vcctl-shown -j train -q vcctl-research",
    "vcctl pod list -n vcctl-shown -j train -q default",
    "vcctl pod list -n vcctl-shown -q vcctl-research",
    "vcctl pod list -n vcctl-empty",
    "vcctl pod list --all-namespaces -q vcctl-research",
    "vcctl jobflow list -n vcctl-shown",
    "vcctl jobflow list -n vcctl-empty",
    "vcctl jobflow get -n vcctl-shown -N steps",
    "vcctl jobflow get -n vcctl-shown -N absent",
    "vcctl jobflow get",
    "vcctl jobflow describe -n vcctl-shown -N steps",
    "vcctl jobflow describe -n vcctl-shown",
    "vcctl jobflow describe -n vcctl-shown -N steps -o json",
    "vcctl jobflow describe -n vcctl-shown -N steps -o xml",
    "vcctl jobflow describe -n vcctl-empty",
    "vcctl jobtemplate list -n vcctl-shown",
    "vcctl jobtemplate list -n vcctl-empty",
    "vcctl jobtemplate get -n vcctl-shown -N step",
    "vcctl jobtemplate get -n vcctl-shown -N absent",
    "vcctl jobtemplate get",
    "vcctl jobtemplate describe -n vcctl-shown -N step",
    "vcctl jobtemplate describe -n vcctl-shown --format json",
    "vcctl job suspend",
    "vcctl job resume",
    "vcctl job delete",
    "vcctl job run",
    "vcctl job run -N x -R cpu",
    "vcctl queue delete",
    "vcctl queue operate",
    "vcctl queue operate -n vc-team",
    "vcctl queue operate -n vc-team -a start",
    "vcctl queue operate -n vc-team -a update",
    "vcctl jobflow delete",
    "vcctl jobtemplate delete",
    "vjobs -N vcctl-shown",
    "vjobs -N vcctl-shown -n train",
    "vjobs --all-namespaces --selector vcctl-",
    "vqueues -n vcctl-research",
    "vqueues -n absent",
    "vsub",
    "vcancel",
    "vsuspend",
    "vresume",
)
"""Commands that change nothing."""

WRITES: Final = (
    "vcctl job run -n {side} -N train -r 4 -m 2 -R cpu=2,memory=1Gi -L cpu=2,memory=1Gi -i repo/image:1 -S mine",
    "vcctl job run -n {side} -N train -S mine",
    "vcctl job run -n {side} -N small -S mine",
    "vcctl job run -n {side} -N bare -S mine --requests= --limits=",
    "vcctl job run -n {side} -N refused -m=-1",
    "vcctl job run -n {side} -f {files}/job.yaml",
    "vcctl job suspend -n {side} -N train",
    "vcctl job resume -n {side} -N train",
    "vcctl job suspend -n {side} -N absent",
    "vcctl job delete -n {side} -N train",
    "vcctl job delete -n {side} -N train",
    "vcctl queue create -n {side} -w 3",
    "vcctl queue create -n {side}",
    "vcctl queue operate -n {side} -a close",
    "vcctl queue operate -n {side} -a open",
    "vcctl queue operate -n {side} -a update -w 5",
    "vcctl queue operate -n absent -a open",
    "vcctl queue operate -n absent -a update -w 5",
    "vcctl queue delete -n {side}",
    "vcctl queue delete -n {side}",
    "vcctl jobflow create -f {files}/flows.yaml",
    "vcctl jobflow create -f {files}/flows.yaml",
    "vcctl jobflow delete -n {side} -N one",
    "vcctl jobflow delete -n {side} -N one",
    "vcctl jobflow delete -f {files}/flows.yaml",
    "vcctl jobtemplate create -f {files}/templates.yaml",
    "vcctl jobtemplate create -f {files}/templates.yaml",
    "vcctl jobtemplate delete -n {side} -N one",
    "vcctl jobtemplate delete -n {side} -N one",
    "vcctl jobtemplate delete -f {files}/templates.yaml",
    "vsub -N {side} -n sub -S mine -i x -r 2 -c 'sh -c \"sleep 10\" # wait'",
    "vsuspend -N {side} -n sub",
    "vresume -N {side} -n sub",
    "vcancel -N {side} -n sub",
    "vcancel -N {side} -n sub",
)
"""Commands that change objects of the namespace ``{side}``, or the queue of this name."""

CODES: Final = {
    "vcctl": 0,
    "vcctl job": 0,
    "vcctl job nonsense": 0,
    "vcctl nonsense": 1,
    "vcctl job list --nonsense": 1,
    "vcctl job list -h": 0,
    "vcctl help queue get": 0,
    "vcctl job run -N x -r many": 1,
    "vcctl job list -k /absent": 255,
    "vcctl job run -f /absent.yaml": 255,
    "vcctl version -v 3": 0,
    "vcctl jobflow create": 255,
    "vcctl job list -N x": 1,
    "vcctl queue create -w": 1,
    "vsub --help": 0,
    "vqueues --nonsense": 1,
}
"""Command lines whose texts are not compared -> their exit codes."""


RECORDED: Final = Path(__file__).with_name("vcctl.txt")
"""What Volcano's programs answer to ``READS`` and ``WRITES``, as ``recorded``. ``compare_vcctl`` writes it."""
PROGRAMS: Final = {str(command.name): command for command in (vcctl, vcancel, vjobs, vqueues, vresume, vsub, vsuspend)}


def commands() -> Iterator[tuple[str, click.Command]]:
    """The command lines of all commands of our programs that are no groups."""
    for name, program in PROGRAMS.items():
        yield from _leaves(name, program)


def _leaves(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _leaves(f"{path} {name}", below)


def flags_of(command: click.Command) -> str:
    """The flags of a command with their defaults, sorted: ``--min/-m=1 --name/-N``."""
    flags = []
    for option in command.params:
        long, *short = sorted(option.opts)
        if long in LOG_FLAGS:
            continue
        default = "" if option.default in (None, False, "") else f"={option.default}"
        flags.append("/".join([long, *short]) + default)
    return " ".join(sorted(flags))


def flags_in(help_text: str) -> str:
    """The flags that the help of one of Volcano's programs lists, as ``flags_of``."""
    flags = []
    for short, long, rest in _FLAG.findall(help_text.partition("Global Flags:")[0]):
        if long in LOG_FLAGS or long == "--help":
            continue
        default = _DEFAULT.search(rest)
        flags.append("/".join(filter(None, [long, short])) + (f"={default[1]}" if default else ""))
    return " ".join(sorted(flags))


LOG_FLAGS: Final = ("--log-flush-frequency", "--v", "--vmodule", "-v")
_FLAG: Final = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)(.*)$", re.MULTILINE)
_DEFAULT: Final = re.compile(r'\(default "?([^")]*)"?\)')
SCHEDULER_DEFAULT: Final = "--scheduler/-S=volcano"
"""The only flag that has another default with us: without it, admission sets the scheduler's name."""


@dataclass(frozen=True)
class Answer:
    """What a script sees of a command."""

    code: int
    stdout: str


def ours(line: str) -> Answer:
    """The answer of our program."""
    program, *words = shlex.split(line)
    result = CliRunner().invoke(PROGRAMS[program], words)
    return Answer(result.exit_code, result.stdout)


def documents(text: str) -> str:
    """The documents that ``describe`` prints, without empty fields: one line of JSON for each."""
    parts = [yaml.safe_load(part) for part in text.split("\n\n\n")]
    return "".join(f"{json.dumps(filled(part), sort_keys=True)}\n" for part in parts if part)


def filled(value: Any) -> Any:
    """An object without empty mappings and lists."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := filled(each)) not in ({}, [], None)}
    return [filled(each) for each in value] if isinstance(value, list) else value


def recorded(line: str, answer: Answer) -> str:
    """The answer to a command without what differs from run to run: uids, versions, dates and ages."""
    text = answer.stdout if " describe " not in line else documents(answer.stdout)
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    lines = [_AGE.sub(lambda age: "x" * len(age[0]), line.rstrip()) for line in text.splitlines()]
    return "\n".join([*lines, f"exit code {answer.code}", ""])


_CHANGING: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r'(Resource Version: *\t|"resourceVersion": ")\d+'), r"\1<version>"),
    (re.compile(r"20[23]\d-\d\d-\d\d"), "0000-00-00"),
    (re.compile(r"(?<=0000-00-00[T ])\d\d:\d\d:\d\d"), "<time>"),
    (re.compile(r"(?<= )\d+[smh](\d+[smh])? *$", re.MULTILINE), "<age>"),
)
_SERVER_FIELDS: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_AGE: Final = re.compile(r"\b\d+y\b")


def _stored(admin: Client, side: str) -> list[str]:
    """The objects that commands created for a side."""
    found: list[Raw] = []
    for path in (
        f"{BATCH}/namespaces/{side}/jobs",
        f"{BUS}/namespaces/{side}/commands",
        f"{FLOW}/namespaces/{side}/jobflows",
        f"{FLOW}/namespaces/{side}/jobtemplates",
    ):
        found += admin.get(path)["items"]
    orders = admin.get(f"{BUS}/namespaces/default/commands")["items"]
    found += (item for item in orders if item["target"]["name"] == side)
    queues = admin.get(f"{SCHEDULING}/queues")["items"]
    found += (item for item in queues if item["metadata"]["name"] == side)
    return [json.dumps(_stable(item), sort_keys=True) for item in found]


def _stable(item: Raw) -> Raw:
    """An object without what the API server chooses."""
    for task in item.get("spec", {}).get("tasks", ()):
        task.setdefault("name", "default0")
        for container in task["template"]["spec"]["containers"]:
            for amounts in container.get("resources", {}).values():
                amounts.update({name: str(parse_amount(amount)) for name, amount in amounts.items()})
    metadata = item["metadata"]
    name = metadata["name"][: len(metadata["generateName"])] if "generateName" in metadata else metadata["name"]
    kept = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    owners = [{**owner, "uid": ""} for owner in metadata.get("ownerReferences", ())]
    target = {**item["target"], "uid": ""} if "target" in item else None
    stable: Raw = filled({**item, "metadata": {**kept, "name": name, "ownerReferences": owners}, "target": target})
    return stable


def write(admin: Client, line: str, side: str, files: Path, run: Callable[[str], Answer]) -> Answer:
    """Runs a command of ``WRITES``. The output of the answer does not name the side. It is followed by one line for
    each object that the command created, changed or deleted."""
    before = _stored(admin, side)
    answer = run(line.format(side=side, files=files / side))
    after = _stored(admin, side)
    changes = [
        *(f"- {item}\n" for item in before if item not in after),
        *(f"+ {item}\n" for item in after if item not in before),
    ]
    return Answer(answer.code, (answer.stdout + "".join(changes)).replace(side, "SIDE"))


def make_side(admin: Client, side: str, files: Path) -> None:
    """Creates the namespace of a side, and the files that ``WRITES`` name."""
    admin.create(f"{CORE}/namespaces", {"metadata": {"name": side}})
    _write_files(files / side, side)


def prepare(admin: Client) -> None:
    """Creates the objects that are read."""
    for namespace in (SHOWN, OTHER, EMPTY):
        admin.create(f"{CORE}/namespaces", {"metadata": {"name": namespace}})
    for name, parent in (("vc-team", ""), ("vcctl-research", "vc-team")):
        spec = {"weight": 2, **({"parent": parent} if parent else {})}
        queue = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        admin.create(f"{SCHEDULING}/queues", queue)
        admin.patch(f"{SCHEDULING}/queues/{name}/status", {"status": {"state": "Open"}})
    for phase in ("Inqueue", "Pending", "Running", "Running", "Unknown", "Completed"):
        admin.create(f"{SCHEDULING}/namespaces/{SHOWN}/podgroups", _pod_group(phase))
    for namespace, job, status in _jobs():
        path = f"{BATCH}/namespaces/{namespace}/jobs"
        admin.create(path, job)
        if status:
            admin.patch(f"{path}/{job['metadata']['name']}/status", {"status": status})
    for event in _events():
        admin.create(f"{CORE}/namespaces/{SHOWN}/events", event)
    for pod, status in _pods():
        path = f"{CORE}/namespaces/{SHOWN}/pods"
        admin.create(path, pod)
        admin.patch(f"{path}/{pod['metadata']['name']}/status", {"status": status})
    for kind, resource, item, status in _flows(SHOWN):
        path = f"{FLOW}/namespaces/{SHOWN}/{resource}"
        admin.create(path, {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, **item})
        if status:
            admin.patch(f"{path}/{item['metadata']['name']}/status", {"status": status})


def _write_files(folder: Path, namespace: str) -> None:
    """Writes the manifests that ``WRITES`` name."""
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "written"}}
    folder.mkdir()
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "spec": {"tasks": [TASK]}}), encoding="utf-8")
    for file, kind, spec in (
        ("flows", "JobFlow", {"flows": [{"name": "a"}], "jobRetainPolicy": "retain"}),
        ("templates", "JobTemplate", {"tasks": [TASK]}),
    ):
        documents = [
            {
                "apiVersion": "flow.volcano.sh/v1alpha1",
                "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
            for name in ("one", "two")
        ]
        (folder / f"{file}.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")


# --- the objects ------------------------------------------------------------------------------------------------------
TASK: Final[Raw] = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "none"}]}}}


def _pod_group(phase: str) -> Raw:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"generateName": "group-"},
        "spec": {"queue": "vcctl-research", "minMember": 1},
        "status": {"phase": phase},
    }


def _jobs() -> Iterator[tuple[str, Raw, Raw]]:
    """Namespace, vcjob and status."""
    container = {
        "name": "main",
        "image": "repo/train:1",
        "command": ["python", "-m", "train"],
        "workingDir": "/work",
        "ports": [{"containerPort": 2222, "name": "ssh"}, {"containerPort": 80}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5", "memory": "1e3"}},
    }
    pod = {"containers": [container, {"name": "side", "image": "x"}], "imagePullSecrets": [{"name": "pull"}]}
    master = {
        "metadata": {"annotations": {"network.alpha.kubernetes.io/network": "fast"}},
        "spec": {**pod, "restartPolicy": "OnFailure"},
    }
    status = {
        **{field: number for number, field in enumerate(_COUNTS, 1)},
        "minAvailable": 2,
        "state": {"phase": "Running"},
        "controlledResources": {"plugin-svc": "svc"},
        "conditions": [{"status": "Pending", "lastTransitionTime": LONG_AGO}, {"status": "Running"}],
    }
    yield (
        SHOWN,
        _job(
            {"name": "train", "labels": {"team": "a", "volcano.sh/job-type": "TF"}, "annotations": {"note": "<a & b>"}},
            queue="vcctl-research",
            schedulerName="volcano",
            plugins={"ssh": ["--no-root", "--x=1"], "env": [], "svc": []},
            tasks=[{"name": "master", "replicas": 1, "template": master}, {**TASK, "replicas": 3}],
        ),
        status,
    )
    yield SHOWN, _job({"name": "vcctl-serve-with-a-long-name"}, queue="default", schedulerName="other"), {}
    yield OTHER, _job({"name": "vcctl-elsewhere"}, queue="vcctl-research"), {"state": {"phase": "Completed"}}


_COUNTS: Final = (
    "pending", "running", "succeeded", "failed", "terminating", "unknown", "version", "retryCount",
)  # fmt: skip


def _job(metadata: Raw, **spec: Any) -> Raw:
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    return {**head, "spec": {"minAvailable": 1, "tasks": [TASK], **spec}}


def _events() -> Iterator[Raw]:
    """Events of the job ``train``, and of others."""
    for name, kind, more in (
        ("train.1", "Job", {"count": 3, "source": {"component": "vc-controller-manager", "host": "n1"}}),
        ("train.2", "Job", {"message": "  job is running  ", "source": {"component": "vc-controller-manager"}}),
        ("trainer.3", "Job", {}),
    ):
        yield {
            "metadata": {"name": name},
            "involvedObject": {"kind": kind, "name": name.partition(".")[0], "namespace": SHOWN},
            "type": "Normal",
            "reason": "ExecuteAction",
            "message": "Start to execute action",
            "firstTimestamp": LONG_AGO,
            "lastTimestamp": LONG_AGO,
            **more,
        }


def _pods() -> Iterator[tuple[Raw, Raw]]:
    """Pods and their statuses."""
    of_train = {"volcano.sh/job-name": "train", "volcano.sh/queue-name": "vcctl-research"}
    ended = {"terminated": {"exitCode": 1, "finishedAt": LONG_AGO}}
    up = {"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 2, "state": {"running": {}}}
    crashed = {**up, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    yield _pod("train-w-1", labels=of_train), {"phase": "Running", "containerStatuses": [crashed]}
    yield _pod("train-w-0", labels=of_train), {"phase": "Running", "containerStatuses": [up]}
    yield _pod("serve-w-0", labels={"volcano.sh/job-name": "serve", "volcano.sh/queue-name": "default"}), {}
    yield _pod("plain", annotations={"scheduling.volcano.sh/queue-name": "vcctl-research"}), {"phase": "Pending"}
    yield _pod("alone"), {"phase": "Succeeded"}


def _pod(name: str, **metadata: Any) -> Raw:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


def _flows(namespace: str) -> Iterator[tuple[str, str, Raw, Raw]]:
    """Kind, resource, object and status."""
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    running = {"state": {"phase": "Running"}, "runningJobs": ["steps-a"]}
    for name, status in (("steps", running), ("later-with-a-name", {})):
        item = {"metadata": {"name": name}, "spec": {"flows": flows, "jobRetainPolicy": "retain"}}
        yield "JobFlow", "jobflows", item, status
    yield "JobTemplate", "jobtemplates", {"metadata": {"name": "step"}, "spec": {"tasks": [TASK]}}, {}
