"""A machine on which the scripts of ``deploy/kind`` run without a container engine: programs in place of Docker and
kind record their arguments, and the cluster is the control plane of the tests.

Fake kubelets run the Pods. The command of the Pod of ``helm test`` runs on this machine, with the rights of the Pod.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from controlplane.manifests import NAMESPACE, RELEASE, ROOT
from scheduler.api.kinds import POD, object_path
from tests.integration.installation import Installation

KIND = ROOT / "deploy" / "kind"
TESTER = f"{RELEASE}-test"
"""The Pod of ``helm test``, its account and its vcjob."""
DOCKER = """\
#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
  "info --format {{json .}}") echo '{"MemoryLimit": true, "PidsLimit": true, "CPUShares": true}' ;;
  "network ls"*) echo kind ;;
  save*) touch "$3" ;;
  run*) sleep 1; exit 1 ;;
esac
"""
"""Answers kind's questions, and cannot run a container."""
FAKE_KIND = """\
#!/bin/sh
echo "kind $*" >> "$CALLS"
case "$*" in
  "get clusters"*) echo volcano-py ;;
  "export kubeconfig"*) cp "$PLANE" "$KUBECONFIG" ;;
esac
"""
"""Has a cluster: the control plane of the tests."""


class Machine:
    """A machine with other programs on its PATH."""

    def __init__(
        self, directory: Path, variables: Mapping[str, str], programs: Mapping[str, str], *further: Path
    ) -> None:
        """``further``: folders of programs that have no replacement."""
        self._calls = directory / "calls"
        self.kubeconfig = directory / "kubeconfig"
        for name, text in programs.items():
            (directory / name).write_text(text, encoding="utf-8")
            (directory / name).chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": ":".join(map(str, (directory, *further, os.environ["PATH"]))),
            "CALLS": str(self._calls),
            "KIND_KUBECONFIG": str(self.kubeconfig),
            "KIND_EXPERIMENTAL_PROVIDER": "docker",
            **variables,
        }

    def run(self, *command: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def calls(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").splitlines()


def as_kubelets(machine: Machine, installation: Installation) -> "subprocess.CompletedProcess[str]":
    """Runs test.sh; meanwhile, Pods of jobs succeed, and the Pod of ``helm test`` ends as its command does."""
    with ThreadPoolExecutor() as threads:
        done = threads.submit(machine.run, KIND / "test.sh")
        commands: dict[str, Future[int]] = {}
        while not done.done():
            for pod in installation.api.get(POD.path)["items"]:
                name, code = pod["metadata"]["name"], 0
                if pod["status"].get("phase") != "Running" or "volcano-py.test/outcome" in _annotations(pod):
                    continue
                if name == TESTER:
                    if name not in commands:
                        commands[name] = threads.submit(_runs, pod, installation)
                    if not commands[name].done():
                        continue
                    code = commands[name].result()
                elif not _ends(pod):
                    continue
                outcome = {"volcano-py.test/outcome": "fail" if code else "succeed"}
                path = object_path(POD, pod["metadata"]["namespace"], name)
                installation.api.patch(path, {"metadata": {"annotations": outcome}})
            time.sleep(0.2)
    return done.result()


def _runs(pod: dict[str, Any], installation: Installation) -> int:
    """Runs the command of a Pod on this machine, with its rights and environment; returns its exit code."""
    (container,) = pod["spec"]["containers"]
    account = f"system:serviceaccount:{NAMESPACE}:{pod['spec']['serviceAccountName']}"
    environment = {each["name"]: each["value"] for each in container["env"]}
    environment["KUBECONFIG"] = str(installation.plane.kubeconfig_for(account))
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    log = installation.directory / f"{TESTER}.log"
    with log.open("w", encoding="utf-8") as output:
        return subprocess.run(
            container["command"], env=environment, stdout=output, stderr=output, check=False
        ).returncode


def _ends(pod: dict[str, Any]) -> bool:
    """Whether the containers of a Pod end: those of jobs, except where the script waits for a job that runs."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())}
    return "Job" in owners and pod["metadata"]["namespace"] not in ("example-command", "example-queues")


def _annotations(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations") or {}
    return found
