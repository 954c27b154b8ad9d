"""A tenant with the ClusterRole `edit` in one namespace tries to control the terminals of other users, and to stop the
scheduler and the controllers with deeply nested values."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from controlplane.client import ApiError, Client
from controlplane.run import ControlPlane
from scheduler.api.names import CARD_REQUEST
from scheduler.api.printable import is_printable
from tests.integration.programs import run
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, Role, emptied, running
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

BATCH = "/apis/batch.volcano.sh/v1alpha1"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\u200b\u2028[red]x[/red]"
DEEP = 100_000
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: sla}]
- plugins:
  - {name: predicates}
  - {name: ascend}
  - {name: capacity-card}
  - {name: nodeorder}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
"""


@pytest.fixture
def stage(control_plane: ControlPlane) -> Namespace:
    emptied(control_plane)
    namespace = Namespace(control_plane)
    namespace.node("n")
    return namespace


@pytest.fixture
def attacker(stage: Namespace) -> Client:
    return tenant(stage.plane, stage.name)


def vcjob(name: str, **annotations: str) -> dict[str, object]:
    container = {"name": "main", "image": f"i{HOSTILE}", "command": [HOSTILE], "env": [{"name": "A", "value": HOSTILE}]}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "volcano-py",
            "minAvailable": 1,
            "tasks": [{"name": "w", "replicas": 1, "template": template}],
        },
    }


def put_event(attacker: Client, stage: Namespace, kind: str, name: str) -> None:
    """Editors of a namespace may write its Events."""
    about = {"kind": kind, "namespace": stage.name, "name": name}
    body = {"metadata": {"name": f"e-{kind.lower()}"}, "involvedObject": about, "type": "Warning", "count": 1}
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    source = {"component": HOSTILE}
    attacker.create(f"{stage.path}/events", {**body, **times, "source": source, "reason": HOSTILE, "message": HOSTILE})


def test_what_a_tenant_writes_never_reaches_a_terminal_raw(stage: Namespace, attacker: Client, tmp_path: Path) -> None:
    attacker.create(f"{BATCH}/namespaces/{stage.name}/jobs", vcjob("train", note=HOSTILE))
    kubeconfig = stage.plane.kubeconfig
    with (
        running("controllers", account(stage.plane, "controllers"), tmp_path, "--leader-elect=false") as controllers,
        stage.scheduled(tmp_path) as scheduler,
    ):
        stage.wait(stage.pods)
        (pod,) = stage.pods()
        (group,) = stage.api.get(f"{GROUPS}/namespaces/{stage.name}/podgroups")["items"]
        put_event(attacker, stage, "Job", "train")
        put_event(attacker, stage, "PodGroup", group["metadata"]["name"])
        attacker.patch(
            f"{GROUPS}/namespaces/{stage.name}/podgroups/{group['metadata']['name']}",
            {"status": {"conditions": [{"type": HOSTILE, "status": "True", "reason": HOSTILE, "message": HOSTILE}]}},
        )
    shown = ""
    for arguments in (
        ["job", "list"],
        ["job", "list", "-o", "wide"],
        ["job", "view", "train"],
        ["job", "view", "train", "-o", "yaml"],
        ["job", "view", "train", "-o", "json"],
        ["job", "top", "--no-watch"],
        ["pod", "list"],
        ["explain", "job", "train"],
        ["explain", "pod", pod["metadata"]["name"]],
        ["queue", "list"],
    ):
        command = [*arguments, "--kubeconfig", str(kubeconfig)]
        if arguments[0] != "queue":
            command += ["--namespace", stage.name]
        done = run(command)
        shown += done.stdout
        assert done.returncode == 0, done.stderr
        assert raw(done.stdout + done.stderr) == [], arguments
    assert r"\x1b[2J" in shown and r"\u202e" in shown, "what is hostile is shown by its codes"
    for role in (controllers, scheduler):
        assert raw(role.log.read_text(encoding="utf-8")) == []


def raw(text: str) -> list[str]:
    """The characters that a terminal would interpret."""
    return [character for character in text if character != "\n" and not is_printable(character)]


@pytest.fixture
def at_work(stage: Namespace, tmp_path: Path) -> Iterator[tuple[Role, Role]]:
    file = tmp_path / "scheduler.conf"
    file.write_text(CONFIGURATION, encoding="utf-8")
    with (
        running("controllers", account(stage.plane, "controllers"), tmp_path, "--leader-elect=false") as controllers,
        stage.scheduled(tmp_path, f"--scheduler-conf={file}") as scheduler,
    ):
        yield controllers, scheduler


def test_deeply_nested_values_stop_neither_the_scheduler_nor_the_controllers(
    stage: Namespace, attacker: Client, at_work: tuple[Role, Role]
) -> None:
    theirs = copy(stage)
    theirs.api = attacker
    for number, text in enumerate(("[" * DEEP, '{"a":' * (DEEP // 5), "- " * DEEP, "{" * DEEP)):
        keys = (CARD_REQUEST, "huawei.com/Ascend910", "sla-waiting-time")
        annotations = {keys[number % len(keys)]: text, "volcano.sh/vgpu-ids-new": text[: DEEP // 2]}
        attacker.create(f"{BATCH}/namespaces/{stage.name}/jobs", vcjob(f"deep-{number}", note=text[:1000]))
        theirs.group(f"deep-{number}", 1, annotations=annotations)
        theirs.pod(f"deep-{number}", f"deep-{number}", {"cpu": "100m"}, annotations)
    deep_job = vcjob("unknown")
    nested: object = 1
    for _ in range(400):
        nested = {"a": nested}
    deep_job["spec"] = {**deep_job["spec"], "unknown": nested}  # type: ignore[dict-item]
    try:
        attacker.create(f"{BATCH}/namespaces/{stage.name}/jobs", deep_job)
    except ApiError as error:  # some servers refuse fields that the definition does not have
        assert error.status in (400, 422)
    stage.group("other", 1)
    stage.pod("other", "other", {"cpu": "1"})
    stage.wait(lambda: "other" in stage.bound())
    controllers, scheduler = at_work
    assert controllers.process.poll() is None and scheduler.process.poll() is None
