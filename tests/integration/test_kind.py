"""The scripts in ``deploy/kind`` without a container engine: kind itself reads the configuration, with a program in
place of Docker. ``test_chart.py`` runs the scripts on an API server, ``tests/kind`` with a container engine.
"""

from pathlib import Path

import pytest

from controlplane import build
from tests.integration.kind_scripts import DOCKER, FAKE_KIND, KIND, Machine
from tests.integration.stage import or_skipped

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def kind() -> Path:
    with or_skipped():
        return build.ensure(modules=build.KIND) / "kind"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {}, {"docker": DOCKER})


def test_kind_accepts_the_configuration_and_asks_for_a_container_per_node(machine: Machine, kind: Path) -> None:
    created = machine.run(kind, "create", "cluster", "--config", KIND / "cluster.yaml", "--kubeconfig", "/dev/null")
    assert 'command "docker run' in created.stderr  # which is as far as kind gets here
    roles = [word for call in machine.calls() for word in call.split() if word.startswith("io.x-k8s.kind.role=")]
    assert sorted(roles) == ["io.x-k8s.kind.role=control-plane", *["io.x-k8s.kind.role=worker"] * 3]
    assert any("--name volcano-py-control-plane" in call for call in machine.calls())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [("nodes:", "nods:", "field nods not found"), ("role: worker", "role: master", "not a valid node role")],
)
def test_kind_refuses_a_mistake(
    machine: Machine, kind: Path, tmp_path: Path, before: str, after: str, said: str
) -> None:
    text = (KIND / "cluster.yaml").read_text(encoding="utf-8").replace(before, after)
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    created = machine.run(kind, "create", "cluster", "--config", tmp_path / "cluster.yaml")
    assert created.returncode == 1 and said in created.stderr


@pytest.mark.parametrize("script", ["engine.sh", "up.sh", "down.sh"])
def test_a_script_says_in_one_line_that_no_container_engine_answers(tmp_path: Path, script: str) -> None:
    machine = Machine(tmp_path, {}, {"docker": "#!/bin/sh\nexit 1\n"})
    done = machine.run(KIND / script)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "error: no container engine answers; kind needs Docker, Podman or nerdctl\n"


def test_a_new_cluster_gets_the_configuration(tmp_path: Path) -> None:
    """The script ends where kind cannot create the cluster."""
    programs = {"docker": DOCKER, "kind": FAKE_KIND.replace("echo volcano-py", "exit 0") + 'test "$1" != create\n'}
    machine = Machine(tmp_path, {"NODE_IMAGE": "kindest/node:v1.36.1"}, {**programs, "helm": "", "kubectl": ""})
    assert machine.run(KIND / "up.sh").returncode == 1
    (create,) = [call for call in machine.calls() if call.startswith("kind create")]
    assert "--config deploy/kind/cluster.yaml --image kindest/node:v1.36.1" in create
