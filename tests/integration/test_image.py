"""The root file system of the image, built as the Dockerfile builds it but without a container engine.

Its packages are copies of those installed here, which have the versions of the lock file; its Python is that of the
tests. Programs run in it with ``chroot``, which needs root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from image.prune import UNUSED, prune
from image.rootfs import BILL, USER, build
from tests.integration.stage import Namespace, emptied, wait

ROOT = Path(__file__).parents[2]
LIMIT = 200_000_000
"""Bytes of all files of the image."""
CHROOT = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")
IMPORT_ALL = """
import importlib, pkgutil, scheduler
for module in pkgutil.walk_packages(scheduler.__path__, "scheduler."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in ("google", "grpc"):  # of the extra device-plugin, which the image lacks
            raise
import kopf, kubernetes.config
print("imported")
"""

pytestmark = pytest.mark.slow


class Image:
    """A root file system with the program."""

    def __init__(self, root: Path, environment: Path) -> None:
        self.root = root
        self.programs = environment / "bin"

    def command(self, program: str, *arguments: str) -> list[str]:
        """A command line that runs a program in the file system as its user."""
        return [str(CHROOT), f"--userspec={USER}:{USER}", str(self.root), str(self.programs / program), *arguments]

    def run(self, program: str, *arguments: str) -> str:
        """Runs a program and returns its output."""
        run = subprocess.run(self.command(program, *arguments), capture_output=True, text=True, check=False, env={})
        assert run.returncode == 0, run.stderr
        return run.stdout

    @contextmanager
    def role(self, *arguments: str) -> Iterator[None]:
        """Runs a role during the context."""
        log = self.root.parent / f"{arguments[0]}.log"
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(self.command("volcano-py", *arguments), stdout=output, stderr=output, env={})
        try:
            yield
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(40)
            print(log.read_text(encoding="utf-8")[-4000:])


def copied(environment: Path) -> None:
    """Makes a virtual environment of the packages in the lock file and of the program, from those installed here."""
    venv.create(environment, symlinks=True)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    lock = (ROOT / "requirements-runtime.lock").read_text(encoding="utf-8")
    for name in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE):
        found = distribution(name)
        for file in found.files or ():
            if file.parts[0] != ".." and "__pycache__" not in file.parts:
                goal = site_packages / file
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(str(found.locate_file(file))), goal)
    shutil.copytree(ROOT / "scheduler", site_packages / "scheduler", ignore=shutil.ignore_patterns("__pycache__"))
    information = site_packages / "volcano_py-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: volcano-py\nVersion: 0\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(
        "[console_scripts]\nvolcano-py = scheduler.cli.main:volcano_py\n", encoding="utf-8"
    )
    program = environment / "bin" / "volcano-py"
    start = "from scheduler.cli.main import volcano_py\nvolcano_py()\n"
    program.write_text(f"#!{environment}/bin/python\n{start}", encoding="utf-8")
    program.chmod(0o755)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    environment, root = folder / "environment", folder / "root"
    copied(environment)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    prune(site_packages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "pycache_prefix", None)
        build(environment, root)
    return Image(root, environment)


@pytest.fixture
def runnable(image: Image) -> Image:
    if os.geteuid() != 0 or CHROOT is None:
        pytest.skip("only root may change the root directory")
    return image


def test_the_image_has_at_most_200_mb(image: Image) -> None:
    files = [path for path in image.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= LIMIT


def test_the_image_has_no_shell_no_tests_and_one_compiled_file_per_module(image: Image) -> None:
    files = [path.relative_to(image.root) for path in image.root.rglob("*") if path.is_file()]
    programs = {path.name for path in files if path.parent.name in ("bin", "sbin")}
    assert {name for name in programs if not re.fullmatch(r"python[0-9.]*|volcano-py", name)} == set()
    assert not [path for path in files if {"test", "tests"} & set(path.parts)]
    compiled = [path for path in files if path.suffix == ".pyc"]
    modules = {path for path in files if path.suffix == ".py"}
    assert {path.parent.parent / f"{path.name.partition('.')[0]}.py" for path in compiled} == modules
    assert len(compiled) == len(modules)


def test_the_bill_of_materials_lists_what_the_image_has(image: Image) -> None:
    found = json.loads((image.root / BILL).read_text(encoding="utf-8"))
    names = {each["name"] for each in found["components"]}
    assert names >= {"python", "numpy", "uvloop", "kubernetes"}
    assert not names & UNUSED
    assert found["metadata"]["component"]["name"] == "volcano-py"
    assert {"serialNumber", "timestamp"}.isdisjoint({*found, *found["metadata"]})


def test_all_modules_of_the_program_can_be_imported(runnable: Image) -> None:
    assert runnable.run("python", "-c", IMPORT_ALL) == "imported\n"


def test_names_of_hosts_are_resolved(runnable: Image) -> None:
    (runnable.root / "etc/hosts").write_text("10.1.2.3 api.example\n", encoding="utf-8")
    code = "import socket; print(socket.gethostbyname('api.example'))"
    assert runnable.run("python", "-c", code) == "10.1.2.3\n"


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("scheduler", "--help"), ("controllers", "--help"), ("webhooks", "--help"), ("job", "run", "--help")],
)
def test_roles_and_commands_start(runnable: Image, arguments: Sequence[str]) -> None:
    assert runnable.run("volcano-py", *arguments).startswith("Usage:")


def test_simulate_schedules_gangs_chips_and_claimed_devices(runnable: Image) -> None:
    inputs = runnable.root / "inputs"
    shutil.copytree(ROOT / "examples", inputs / "examples")
    shutil.copy(ROOT / "tests/scenarios/470-device-gang-fits/input.yaml", inputs / "claims.yaml")

    output = runnable.run(
        "volcano-py", "simulate", "-f", "/inputs/examples", "--scheduler-conf", "/inputs/examples/scheduler.conf"
    )
    assert output.startswith("Bound (13)")
    claims = runnable.run("volcano-py", "simulate", "-f", "/inputs/claims.yaml", "--scheduler-name", "volcano")
    assert claims.startswith("Bound (3)")


def vcjob() -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "schedulerName": "volcano-py",
        "minAvailable": 2,
        "tasks": [{"name": "w", "replicas": 2, "template": template}],
    }
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


@pytest.mark.controlplane
def test_the_roles_run_a_job_on_an_api_server(runnable: Image, control_plane: ControlPlane) -> None:
    emptied(control_plane)
    cluster = Namespace(control_plane)
    cluster.node("n1")
    kubeconfig = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    (server,) = kubeconfig["clusters"]
    authority = shutil.copy(server["cluster"]["certificate-authority"], runnable.root)
    server["cluster"]["certificate-authority"] = f"/{Path(authority).name}"
    (runnable.root / "kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
    common = ("--kubeconfig=/kubeconfig", "--leader-elect=false", "--enable-metrics=false", "--enable-healthz=false")

    with runnable.role("scheduler", *common), runnable.role("controllers", *common):
        cluster.api.create(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{cluster.name}/jobs", vcjob())
        wait(lambda: len(cluster.bound()) == 2)
