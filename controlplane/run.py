"""Starts and stops a Kubernetes control plane on this machine: etcd, the API server and the helpers that a test needs.

Each program is an ordinary process on 127.0.0.1 with its data in a temporary directory. The programs are ready after a
few seconds, and leave nothing behind. A test or benchmark uses `ControlPlane`; a user runs::

    python -m controlplane.run

and gets a cluster with fake nodes for experiments, until Ctrl-C. The binaries come from `controlplane.build`,
the rules of the fake kubelets from `kwok.yaml`, keys and tokens from `controlplane.credentials`.
"""

import argparse
import atexit
import functools
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from controlplane import build
from controlplane.client import ApiError, Client
from controlplane.credentials import Authority, TokenReviewer, write_kubeconfig, write_signing_key
from controlplane.process import Process, StartError, free_ports

CRD_DIRECTORY = build.HERE.parent / "deploy" / "crds"
KWOK_CONFIGURATION = build.HERE / "kwok.yaml"

# Admission that waits for a controller: without one, no Pod could be created without a service account, every new
# Node would keep a not-ready taint, and deleted volumes would stay for ever.
NEEDS_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")

# The controllers that create and delete Pods of workloads, without controllers for clouds, certificates or evictions.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)

ETCD_DATA = "etcd"
"""The directory of etcd's data in the directory of a control plane, and in an archive of such data."""

_ADMINISTRATORS = ("system:masters",)
# The clients of the control plane run on the same machine: limiting them gains nothing.
_QPS, _BURST = 5000, 10000


class ControlPlane:
    """An API server of its own for one test session or benchmark.

    Use it as a context manager, or call `start` and `stop`. Once started, `url` is the address of the API server,
    `kubeconfig` the file of a cluster administrator, `admin` a JSON client under that identity, `authority` the
    certificate authority that signed the server's certificate (and can sign one for an admission webhook), `etcd_port`
    the port of etcd's client URL.

    `logs`: directory for one log file per process; by default inside the temporary directory, gone after `stop`.
    `fairness`: whether the API server applies priority and fairness and its limits of requests in flight. Off by
    default, so that figures measure the program rather than the queueing of a server that has two cores to itself.
    `disable_admission`: admission plugins to switch off; pass `()` to have all the usual ones, together with
    `start_controller_manager`.
    `apiserver_options`: further command line options for kube-apiserver.
    `hosts`: names and addresses besides loopback under which clients reach the API server.
    `data`: an archive of etcd's data to start from (`controlplane.prepared`); by default there are no objects.
    `timeout`: seconds that any process may take to become ready.
    """

    def __init__(
        self,
        logs: Path | None = None,
        *,
        fairness: bool = False,
        disable_admission: Sequence[str] = NEEDS_CONTROLLERS,
        apiserver_options: Sequence[str] = (),
        hosts: Sequence[str] = (),
        data: Path | None = None,
        timeout: float = 90.0,
    ) -> None:
        self._given_logs = logs
        self._fairness = fairness
        self._disabled_admission = tuple(disable_admission)
        self._apiserver_options = tuple(apiserver_options)
        self._hosts = tuple(hosts)
        self._data = data
        self._timeout = timeout
        self._cleanup = ExitStack()
        self._processes: dict[str, Process] = {}

    # ------------------------------------------------------------------------------------------- life

    def start(self) -> Self:
        """Build the binaries if need be, start etcd and the API server and wait until it is ready.

        Raises `controlplane.build.BuildError` or `controlplane.process.StartError`; nothing is left running then.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every process, the last started first, and remove all data."""
        atexit.unregister(self.stop)
        self._cleanup.close()
        self._processes.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.binaries = build.ensure(functools.partial(print, file=sys.stderr, flush=True))
        self.directory = Path(tempfile.mkdtemp(prefix="controlplane-"))
        self._cleanup.callback(shutil.rmtree, self.directory, ignore_errors=True)
        # Removes the directory even if `stop` is not called.
        atexit.register(self.stop)
        self.logs = (self._given_logs or self.directory / "logs").resolve()
        self.logs.mkdir(parents=True, exist_ok=True)
        secure_port, self.etcd_port, peer_port = free_ports(3)
        self.url = f"https://127.0.0.1:{secure_port}"
        self.authority = Authority(self.directory)
        self._reviewer = self._cleanup.enter_context(TokenReviewer(self.directory))
        self._issued = 0
        self.kubeconfig = self.kubeconfig_for("test-administrator", _ADMINISTRATORS)
        token = json.loads(self.kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
        self.admin = Client("127.0.0.1", secure_port, token, self.authority.client_context())
        self._etcd = self._etcd_options(self.etcd_port, peer_port)
        self._spawn("etcd", [*self._unpacked(), *self._etcd])
        self._apiserver = self._apiserver_command(secure_port, self.etcd_port)
        self._start_apiserver()

    def restart_apiserver(self) -> None:
        """End the API server, start another one on the same data and wait until it is ready."""
        self.process(build.APISERVER).stop()
        self._start_apiserver()

    def restart_etcd(self) -> None:
        """Kill etcd, start another one on the same data and wait until the API server is ready."""
        self.process("etcd").stop(grace=0.0)
        self._spawn("etcd", self._etcd)
        self.process(build.APISERVER).wait_until(self._ready, self._timeout)

    def _start_apiserver(self) -> None:
        self._spawn(build.APISERVER, self._apiserver).wait_until(self._ready, self._timeout)

    def _unpacked(self) -> list[str]:
        """Unpacks the given data. Returns the options of the first etcd that uses them."""
        if self._data is None:
            return []
        with tarfile.open(self._data) as archive:
            archive.extractall(self.directory, filter="tar")
        # The data names the ports of the etcd that wrote it. Later, the option would drop writes that are not known to
        # be committed when etcd is killed.
        return ["--force-new-cluster"]

    def _etcd_options(self, port: int, peer_port: int) -> list[str]:
        return [
            f"--data-dir={self.directory / ETCD_DATA}",
            f"--listen-client-urls=http://127.0.0.1:{port}",
            f"--advertise-client-urls=http://127.0.0.1:{port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
            # The data is deleted after the run, so etcd need not wait for the disk.
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
        ]

    def _apiserver_command(self, port: int, etcd_port: int) -> list[str]:
        serving = self.authority.issue(build.APISERVER, self._hosts)
        # Aggregated APIs trust the API server by a certificate of this authority.
        self.front_proxy = Authority(self.directory / "front-proxy")
        proxy = self.front_proxy.issue("front-proxy-client", client=True)
        self.signing_key = self.directory / "service-accounts.key"
        write_signing_key(self.signing_key)
        options = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--service-account-key-file={self.signing_key}",
            f"--service-account-signing-key-file={self.signing_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--authentication-token-webhook-config-file={self._reviewer.configuration}",
            "--authentication-token-webhook-version=v1",
            # The other end of this webhook is Python in the parent process, which may be busy with a benchmark.
            "--authentication-token-webhook-cache-ttl=1h",
            "--authorization-mode=RBAC",
            f"--requestheader-client-ca-file={self.front_proxy.path}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy.certificate}",
            f"--proxy-client-key-file={proxy.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            "--delete-collection-workers=8",
        ]
        if self._disabled_admission:
            options.append(f"--disable-admission-plugins={','.join(self._disabled_admission)}")
        if not self._fairness:
            options += [
                "--enable-priority-and-fairness=false",
                "--max-requests-inflight=0",
                "--max-mutating-requests-inflight=0",
            ]
        return [*options, *self._apiserver_options]

    def _ready(self) -> bool:
        try:
            return bool(self.admin.get("/readyz") == "ok")
        except (ApiError, OSError, HTTPException):
            return False

    # --------------------------------------------------------------------------------------- identities

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig file under which the API server sees `user`, and return its path.

        Rights come from RBAC alone; apart from `groups` the user is in `system:authenticated`. A service account is
        `system:serviceaccount:<namespace>:<name>`, in the groups `system:serviceaccounts` and
        `system:serviceaccounts:<namespace>`, which are added here.
        """
        match user.split(":"):
            case ["system", "serviceaccount", namespace, _name]:
                groups = [*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        self._issued += 1
        path = self.directory / f"kubeconfig-{self._issued}.json"
        write_kubeconfig(path, self.url, self._reviewer.issue(user, groups), self.authority.path)
        return path

    # ------------------------------------------------------------------------------------------ helpers

    def start_kwok(self, configuration: Path = KWOK_CONFIGURATION, *, leases: bool = False) -> Process:
        """Start the fake kubelets: every Node becomes Ready, every Pod bound to one runs. See `kwok.yaml`.

        `leases` keeps a Lease per Node fresh, as kubelets do; only the node lifecycle controller looks at them.
        """
        return self._spawn(
            "kwok",
            [
                f"--kubeconfig={self._component_kubeconfig('kwok')}",
                f"--config={configuration}",
                f"--node-lease-duration-seconds={40 if leases else 0}",
                # A line per patched object would cost more than the patch.
                "--v=WARN",
                # There is no server for logs and exec, because no container runs.
                "--node-port=0",
            ],
        )

    def start_controller_manager(
        self, controllers: Sequence[str] = CONTROLLERS, options: Sequence[str] = ()
    ) -> Process:
        """Start kube-controller-manager with the `controllers` named and no others, and with further `options`."""
        return self._spawn(
            "kube-controller-manager",
            [
                f"--kubeconfig={self._component_kubeconfig('kube-controller-manager')}",
                f"--controllers={','.join(controllers)}",
                "--leader-elect=false",
                "--secure-port=0",
                f"--kube-api-qps={_QPS}",
                f"--kube-api-burst={_BURST}",
                *options,
            ],
        )

    def start_kube_scheduler(self, extra: Mapping[str, Any] | None = None) -> Process:
        """Start the stock scheduler; `extra` is merged into the top level of its KubeSchedulerConfiguration."""
        configuration = self.directory / "kube-scheduler.json"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self._component_kubeconfig("kube-scheduler")),
                "qps": _QPS,
                "burst": _BURST,
            },
            "leaderElection": {"leaderElect": False},
            **(extra or {}),
        }
        configuration.write_text(json.dumps(content), encoding="utf-8")
        return self._spawn("kube-scheduler", [f"--config={configuration}", "--secure-port=0"])

    def start_kube_state_metrics(self, port: int, options: Sequence[str] = ()) -> Process:
        """Build kube-state-metrics if need be, and start it; its metrics are at `port` of 127.0.0.1."""
        binaries = build.ensure(functools.partial(print, file=sys.stderr, flush=True), build.EXPORTERS)
        (telemetry,) = free_ports(1)
        return self._spawn(
            "kube-state-metrics",
            [
                f"--kubeconfig={self._component_kubeconfig('kube-state-metrics')}",
                *("--host=127.0.0.1", f"--port={port}"),
                *("--telemetry-host=127.0.0.1", f"--telemetry-port={telemetry}"),
                *options,
            ],
            binaries,
        )

    def process(self, name: str) -> Process:
        """The running process of that name, such as `kube-apiserver`; `KeyError` if it was not started."""
        return self._processes[name]

    def ended(self) -> list[str]:
        """For each program that has ended, by itself or because it was stopped: a message, and the end of its log."""
        return [f"{each.name} ended:\n{each.tail()}" for each in self._processes.values() if not each.running]

    def _component_kubeconfig(self, component: str) -> Path:
        # The groups of an administrator, but a name of its own, which then shows in logs and managed fields.
        return self.kubeconfig_for(f"test:{component}", _ADMINISTRATORS)

    def _spawn(self, name: str, options: Sequence[str], binaries: Path | None = None) -> Process:
        running = self._processes.get(name)
        if running is not None and running.running:
            raise StartError(f"{name} is running already")
        binary = (binaries or self.binaries) / name
        if not binary.is_file():
            raise StartError(f"there is no {name} in {binary.parent}; unset {build.ASSETS_VARIABLE} to have it built")
        process = Process(name, [binary, *options], self.logs)
        # All data is deleted, so no process has to finish its work.
        self._cleanup.callback(process.stop, grace=0.0)
        self._processes[name] = process
        return process

    # ------------------------------------------------------------------------------------------ objects

    def apply_crds(self, directory: Path = CRD_DIRECTORY) -> list[str]:
        """Apply every resource definition in the `*.yaml` files of `directory`, wait until they are served.

        Returns their names. Raises `controlplane.client.ApiError` if the server refuses one, `TimeoutError` if it does
        not come to serve it.
        """
        names = []
        for file in sorted(directory.glob("*.yaml")):
            for definition in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                name = definition["metadata"]["name"]
                self.admin.patch(f"{_CRDS}/{name}?fieldManager=controlplane&force=true", definition, "apply")
                names.append(name)
        for name in names:
            self.admin.wait(f"{_CRDS}/{name}", _is_established, self._timeout)
        return names

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints; `CalledProcessError` with its stderr if it fails."""
        command = [str(self.binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}", *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _is_established(definition: Mapping[str, Any]) -> bool:
    # A definition fresh from the server has a status whose conditions are null.
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command line: runs all programs until Ctrl-C or SIGTERM. Returns 1 if a program cannot be
    started or ends by itself."""
    parser = argparse.ArgumentParser(
        prog="python -m controlplane.run",
        description="Run a Kubernetes control plane with fake kubelets on this machine until Ctrl-C.",
    )
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep the log file of each process in DIR")
    parser.add_argument("--no-controllers", action="store_true", help="do without kube-controller-manager")
    parser.add_argument("--no-kube-scheduler", action="store_true", help="do without the stock scheduler")
    parser.add_argument("--no-kwok", action="store_true", help="do without fake kubelets")
    options = parser.parse_args(arguments)
    # Service managers send SIGTERM instead of Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ControlPlane(options.logs) as plane:
            _start_all(plane, options)
            print(f"ready at {plane.url}, logs in {plane.logs}; Ctrl-C to stop", file=sys.stderr)
            print(plane.kubeconfig, flush=True)
            while not (ended := plane.ended()):
                time.sleep(0.5)
            for each in ended:
                print(f"error: {each}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0
    except (build.BuildError, StartError, ApiError, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _start_all(plane: ControlPlane, options: argparse.Namespace) -> None:
    plane.apply_crds()
    if not options.no_kwok:
        plane.start_kwok()
    if not options.no_controllers:
        plane.start_controller_manager()
    if not options.no_kube_scheduler:
        plane.start_kube_scheduler()


if __name__ == "__main__":
    sys.exit(main())
