"""The control plane on which scenarios run: emptied between scenarios, with only the roles that a scenario names.

Roles keep running from one scenario to the next where possible, so they also have to survive the deletion of all
objects.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from controlplane.client import ApiError
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CLAIM,
    COMMAND,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    SECRET,
    SERVICE,
    VCJOB,
    Kind,
    object_path,
)
from scheduler.webhooks.routes import collection_of, name_of, routes
from tests.integration.programs import Program

Raw = dict[str, Any]

OURS = "volcano-system"
"""The namespace of the roles."""
_SYSTEM = {"kube-system", "kube-public", "kube-node-lease", OURS}
_STAYS = {
    *(("Namespace", name) for name in (*_SYSTEM, "default")),
    *(("PriorityClass", name) for name in ("system-node-critical", "system-cluster-critical")),
    *(("Service", "kubernetes"), ("ConfigMap", "kube-root-ca.crt")),
}
_QUEUES = ("default", "root")
# Owners before what they own; objects that the owners' controllers create again are deleted in the next round.
_WIPED = (
    *(VCJOB, ACJOB, DEPLOYMENT, BATCH_JOB, REPLICA_SET, COMMAND, POD, POD_GROUP, SERVICE, CONFIG_MAP, SECRET, CLAIM),
    *(NETWORK_POLICY, NODE, PRIORITY_CLASS, QUEUE, EVENT, NAMESPACE),
)
# The admission plugins that Volcano's chart enables.
_ADMISSIONS = (
    *("/jobs/mutate", "/jobs/validate", "/podgroups/validate", "/queues/mutate", "/queues/validate"),
    *("/hypernodes/validate", "/cronjobs/validate"),
)


class Stage:
    """A control plane with the roles that a scenario needs."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.api = plane.admin
        self._kubeconfig = plane.kubeconfig
        self._directory = directory
        self._roles: dict[str, tuple[Program, list[str]]] = {}

    def prepare(self, scenario: Path, meta: Raw) -> None:
        """Empties the control plane, and runs exactly the components that ``meta`` names."""
        # Admission would refuse the deletion of queues, and each scenario configures it.
        self._stop("webhooks")
        components = meta.get("components", ["scheduler"])
        wanted = {role: self._options(role, scenario) for role in components if role != "webhooks"}
        for role, (program, options) in list(self._roles.items()):
            if wanted.get(role) != options or program.poll() is not None:
                self._stop(role)
        self._wipe()
        for role, options in wanted.items():
            if role not in self._roles:
                self._start(role, options)
        if "webhooks" in components:
            self._start_webhooks(scenario, meta)
        if "controllers" not in components:  # these open queues
            for queue in self.listed(QUEUE):
                path = f"{object_path(QUEUE, '', queue['metadata']['name'])}/status"
                self.api.patch(path, {"status": {"state": "Open"}})
        self.until(lambda: all(queue.get("status", {}).get("state") for queue in self.listed(QUEUE)), "queues open")

    def ended(self) -> list[str]:
        """The roles that have exited by themselves, with the ends of their logs."""
        return [
            f"{role} ended:\n{self._log(role)}"
            for role, (program, _) in self._roles.items()
            if program.poll() is not None
        ]

    def _log(self, role: str) -> str:
        """The last lines that a role has logged."""
        return "\n".join(self._file(role).read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        for role in list(self._roles):
            self._stop(role)

    # --- objects ------------------------------------------------------------------------------------------------------
    def listed(self, kind: Kind) -> list[Raw]:
        """Objects of a kind, except those that belong to the control plane itself."""
        items: Iterable[Raw] = self.api.get(kind.path)["items"]
        return [
            item
            for item in items
            if item["metadata"].get("namespace") not in _SYSTEM and (kind.name, item["metadata"]["name"]) not in _STAYS
        ]

    def until(self, condition: Callable[[], Any], what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout:.0f} s: {what}")
            time.sleep(0.05)

    def _wipe(self) -> None:
        self.until(self._wiped, "everything deleted")
        for name in _QUEUES:
            body = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": name}}
            self.api.create(QUEUE.path, {**body, "spec": {"weight": 1, "reclaimable": name == "default"}})

    def _wiped(self) -> bool:
        """Deletes all objects; returns whether there were none."""
        left = False
        for kind in _WIPED:
            for item in self.listed(kind):
                left = True
                meta = item["metadata"]
                path = object_path(kind, meta.get("namespace", ""), meta["name"])
                if meta.get("finalizers"):
                    self._at_will("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
                if not meta.get("deletionTimestamp") or kind is POD:
                    self._at_will("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
        return not left

    def _at_will(self, *request: Any) -> None:
        """A request about an object that may already be deleted."""
        try:
            self.api.request(*request)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    # --- roles --------------------------------------------------------------------------------------------------------
    def _options(self, role: str, scenario: Path) -> list[str]:
        options = ["--leader-elect=false", "--scheduler-name=volcano", "--enable-metrics=false"]
        if role == "scheduler":
            # One copy per content, so that scenarios with equal configurations share a process.
            text = (scenario / "scheduler.conf").read_text(encoding="utf-8")
            file = self._directory / f"scheduler-{hash(text)}.conf"
            file.write_text(text, encoding="utf-8")
            options += [f"--scheduler-conf={file}", "--schedule-period=300ms"]
        return options

    def _start(self, role: str, options: Sequence[str]) -> int:
        """Runs a role; returns when it is ready, with the port that serves its health."""
        (health,) = free_ports(1)
        command = [role, f"--kubeconfig={self._kubeconfig}", *options, f"--healthz-address=127.0.0.1:{health}"]
        program = Program(command, self._file(role))
        self._roles[role] = (program, list(options))
        self.until(lambda: _answers(health) or self.ended(), f"{role} ready")
        assert not (ended := self.ended()), "\n".join(ended)
        return health

    def _file(self, role: str) -> Path:
        return self._directory / f"{role}.log"

    def _start_webhooks(self, scenario: Path, meta: Raw) -> None:
        paths = meta.get("admissions", _ADMISSIONS)
        configuration = self._directory / f"{scenario.name}.admission.yaml"
        configuration.write_text(meta.get("admission_conf", ""), encoding="utf-8")
        (port,) = free_ports(1)
        options = [f"--enabled-admission={','.join(paths)}", f"--admission-conf={configuration}"]
        options += ["--scheduler-name=volcano", f"--port={port}", "--listen-address=127.0.0.1"]
        options += [f"--webhook-url=https://127.0.0.1:{port}", f"--webhook-namespace={OURS}"]
        self._start("webhooks", [*options, "--graceful-shutdown-time=100ms"])
        self.until(self._refuses, "webhooks in force")

    def _refuses(self) -> bool:
        """Whether our webhooks refuse a bad queue: the API server takes a moment to load their configuration."""
        spec = {"weight": 1, "parent": "probe"}
        body = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": "probe"}, "spec": spec}
        try:
            self.api.create(f"{QUEUE.path}?dryRun=All", body)
        except ApiError as error:
            return "cannot use itself as parent" in str(error)
        return False

    def _stop(self, role: str) -> None:
        if role not in self._roles:
            return
        if role == "webhooks":
            for route in routes().values():
                self._at_will("DELETE", f"{collection_of(route)}/{name_of(route)}")
            # Requests of the API server that are still open get a response.
            self.until(lambda: not self._refuses(), "webhooks out of force")
        program, _ = self._roles.pop(role)
        program.terminate()
        try:
            program.wait(5)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait(10)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
