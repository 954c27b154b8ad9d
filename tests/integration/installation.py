"""The chart installed by Helm on a real API server, and its Deployments' processes run here in place of containers.

There are no images, so a role is started as a process with the arguments, the configuration files and the identity that
the Deployment on the server gives it; ports of this machine replace the ports of a Pod.
"""

import base64
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from controlplane import prepared
from controlplane.manifests import CHART, NAMESPACE, RELEASE, ROOT
from controlplane.process import Process, free_ports
from controlplane.run import ControlPlane
from tests.integration.audit import audited
from tests.integration.service_network import ServiceNetwork
from tests.integration.stage import or_skipped
from tests.rights_in_use import Request

EXAMPLES = ROOT / "deploy" / "examples"
ROLES = ("webhooks", "controllers", "scheduler")

# The admission plugins of ordinary clusters, and the plugin that checks whether a controller may block its owner's
# deletion.
_WITHOUT = ("TaintNodesByCondition", "StorageObjectInUseProtection")


class Role:
    """A process of a Deployment."""

    def __init__(self, process: Process, health: int, metrics: int) -> None:
        """``health``, ``metrics``: the ports of these endpoints."""
        self.process = process
        self.metrics = metrics
        self._health = health

    @property
    def log(self) -> str:
        return self.process.log.read_text(encoding="utf-8")

    def answers(self, path: str) -> bool:
        """Whether a probe succeeds."""
        try:
            with urlopen(f"http://127.0.0.1:{self._health}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


class Installation:
    """A control plane with one release of the chart. A context manager; the test calls `install` and `start`."""

    def __init__(self, directory: Path, options: Sequence[str] = (), *, definitions: bool = True) -> None:
        """``options``: of the API server. ``definitions``: whether the resource definitions exist before the chart is
        installed; the chart then does not change them."""
        self.directory = directory
        self._options = options
        self._definitions = definitions
        self._stack = ExitStack()
        self.roles: dict[str, Role] = {}

    def __enter__(self) -> Self:
        """Raises `controlplane.build.BuildError`."""
        self._network = self._stack.enter_context(ServiceNetwork())
        self._audit = self._stack.enter_context(audited())
        self.plane = ControlPlane(
            disable_admission=_WITHOUT,
            data=prepared.with_definitions() if self._definitions else None,
            apiserver_options=[
                *self._network.apiserver_options,
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                *self._audit.options,
                *self._options,
            ],
        )
        try:
            self.plane.start()
            self._stack.callback(self.plane.stop)
            self.api = self.plane.admin
            self.plane.start_kwok()
            self.plane.start_controller_manager()
            self.plane.start_kube_scheduler()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for role in self.roles.values():
            role.process.stop()
        self._stack.close()

    # --- Helm ---------------------------------------------------------------------------------------------------------
    def helm(self, *arguments: str | Path) -> str:
        """Returns the output of Helm; raises CalledProcessError with its stderr."""
        command = [str(self.plane.binaries / "helm"), *map(str, arguments), f"--namespace={NAMESPACE}"]
        command += [f"--kubeconfig={self.plane.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"helm {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def package(self) -> Path:
        """The packaged chart."""
        self.helm("package", CHART, f"--destination={self.directory}")
        (self.archive,) = self.directory.glob("*.tgz")
        return self.archive

    def manifest(self) -> list[dict[str, Any]]:
        """The objects of the release."""
        return [each for each in yaml.safe_load_all(self.helm("get", "manifest", RELEASE)) if each]

    # --- roles --------------------------------------------------------------------------------------------------------
    def start(self, role: str) -> Role:
        """Runs the process of a Deployment, and waits until its probes succeed."""
        name = f"{RELEASE}-{role}"
        pod = self.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        arguments = self._mounted(role, pod, container)
        port, health = free_ports(2)
        account = f"system:serviceaccount:{NAMESPACE}:{pod['serviceAccountName']}"
        arguments += [f"--kubeconfig={self.plane.kubeconfig_for(account)}", f"--healthz-address=127.0.0.1:{health}"]
        if role == "webhooks":
            arguments += [f"--port={port}", "--listen-address=127.0.0.1", "--graceful-shutdown-time=200ms"]
            service = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{name}")
            self._network.connect(service, "webhook", port)
        else:
            arguments.append(f"--listen-address=127.0.0.1:{port}")
        if any(word.startswith("--visibility-address=") for word in arguments):
            (self.visibility_port,) = free_ports(1)
            arguments.append(f"--visibility-address=127.0.0.1:{self.visibility_port}")
            service = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{name}")
            self._network.connect(service, "visibility", self.visibility_port)
        process = Process(name, [sys.executable, "-m", "scheduler.cli.main", *arguments], self.directory)
        started = self.roles[role] = Role(process, health, health if role == "webhooks" else port)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            process.wait_until(lambda path=path: started.answers(path), 60.0)  # type: ignore[misc]
        return started

    def endpoints(self, role: str, port: str) -> None:
        """Creates the EndpointSlice of a Service, for API servers that look for one: no controller does it here."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        name = f"{RELEASE}-{role}"
        ports = [{"name": port, "port": 8443, "protocol": "TCP"}]
        ready = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}}
        meta = {"name": name, "labels": {"kubernetes.io/service-name": name}}
        self.api.create(path, {"metadata": meta, "addressType": "IPv4", "ports": ports, "endpoints": [ready]})

    def _mounted(self, role: str, pod: dict[str, Any], container: dict[str, Any]) -> list[str]:
        """The arguments with paths of local files instead of those in a container; writes the files."""
        arguments: list[str] = list(container["args"])
        mounts = container.get("volumeMounts", ())
        for mount in sorted(
            mounts, key=lambda each: len(each["mountPath"]), reverse=True
        ):  # one may begin with another
            directory = self.directory / role / mount["name"]
            directory.mkdir(parents=True, exist_ok=True)
            arguments = [word.replace(mount["mountPath"], str(directory)) for word in arguments]
        self.refresh(role, pod)
        return arguments

    def refresh(self, role: str, pod: dict[str, Any] | None = None) -> None:
        """Updates mounted ConfigMaps and Secrets, as a kubelet does."""
        if pod is None:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}-{role}"
            pod = self.api.get(path)["spec"]["template"]["spec"]
        for volume in pod.get("volumes", ()):
            for file, content in self._files(volume).items():
                (self.directory / role / volume["name"] / file).write_bytes(content)

    def _files(self, volume: dict[str, Any]) -> dict[str, bytes]:
        """The files of a volume, which is a ConfigMap or a Secret."""
        core = f"/api/v1/namespaces/{NAMESPACE}"
        if "secret" in volume:
            data = self.api.get(f"{core}/secrets/{volume['secret']['secretName']}")["data"]
            return {file: base64.b64decode(content) for file, content in data.items()}
        data = self.api.get(f"{core}/configmaps/{volume['configMap']['name']}")["data"]
        return {file: content.encode() for file, content in data.items()}

    # --- the requests of the roles to the API server ------------------------------------------------------------------
    def requests(self) -> Counter[Request]:
        """The requests so far."""
        return self._audit.requests()

    def logs(self) -> Sequence[str]:
        return [role.log for role in self.roles.values()]


@contextmanager
def started_installation(
    directory: Path, options: Sequence[str] = (), *, definitions: bool = True
) -> Iterator[Installation]:
    """An installation whose control plane runs. Skips the test if it cannot be built."""
    installation = Installation(directory, options, definitions=definitions)
    with or_skipped():
        installation.__enter__()
    with installation:
        yield installation
