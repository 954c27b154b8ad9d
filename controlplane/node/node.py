"""One real node: containerd and a kubelet, as ordinary processes in the namespaces of `controlplane.node.namespaces`.

Several nodes share these namespaces. Each has its own address on the loopback interface, its own containerd, cgroup and
directory, and a range of Pod addresses. Pods reach Pods of other nodes through the routes of the host, so no tunnel is
needed.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane import build
from controlplane.client import ApiError
from controlplane.node.images import PAUSE
from controlplane.node.namespaces import CGROUP_VARIABLE
from controlplane.node.preflight import CNI_PLUGINS, cgroup_roots
from controlplane.process import Process, StartError
from controlplane.run import ControlPlane

POD_NETWORK = "10.244.0.0/16"
LEASE_SECONDS = 12
"""The seconds after which a node without a kubelet counts as not ready."""
_READY_WITHIN = 60.0


def address_of(number: int) -> str:
    """The address of the node with this number, from 1."""
    return f"172.31.255.{number}"


class Node:
    """A node with the name `node-<number>`. `stop` leaves nothing behind."""

    def __init__(self, plane: ControlPlane, registry: str, dns: str, number: int, logs: Path) -> None:
        """`registry`: the host and port of the registry; `dns`: the address of the DNS server of Pods; `number`: from 1
        to 254."""
        self.name = f"node-{number}"
        self.address = address_of(number)
        self.directory = plane.directory / self.name
        self._plane = plane
        self._registry = registry
        self._dns = dns
        self._number = number
        self._logs = logs
        self._cgroup = f"/{os.environ[CGROUP_VARIABLE]}/{self.name}"
        self._binaries = build.ensure(functools.partial(print, file=sys.stderr, flush=True), build.NODE)
        self._processes: dict[str, Process] = {}

    # ------------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Starts containerd and the kubelet; `wait_until_ready` follows. Raises `StartError`."""
        self.directory.mkdir()
        subprocess.run(["ip", "address", "add", f"{self.address}/32", "dev", "lo"], check=True)
        for root in cgroup_roots():
            Path(f"{root}{self._cgroup}").mkdir(exist_ok=True)
        self._write_configuration()
        self.start_containerd()
        self.start_kubelet()

    def stop(self) -> None:
        """Ends every process of the node, its containers included, and unmounts what they mounted."""
        self.power_off()
        subprocess.run(["ip", "address", "del", f"{self.address}/32", "dev", "lo"], check=False, capture_output=True)

    def start_containerd(self) -> None:
        """Starts containerd, which takes over the containers of its predecessor."""
        path = f"PATH={self._binaries}:{os.environ['PATH']}"
        options: list[str | Path] = ["--config", self.directory / "containerd.toml"]
        process = self._spawn("containerd", ["env", path, self._binaries / "containerd", *options])
        process.wait_until(self._containerd_answers, 30.0)

    def stop_containerd(self) -> None:
        """Kills containerd. The containers run on."""
        self._processes["containerd"].stop(grace=0.0)

    def start_kubelet(self) -> None:
        """Starts the kubelet under the identity of the node."""
        kubeconfig = self._plane.kubeconfig_for(f"system:node:{self.name}", ["system:nodes"])
        options = [
            f"--config={self.directory / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--root-dir={self.directory / 'kubelet'}",
            "--v=2",
        ]
        self._spawn("kubelet", [self._binaries / "kubelet", *options])

    def stop_kubelet(self) -> None:
        """Kills the kubelet. The containers run on."""
        self._processes["kubelet"].stop(grace=0.0)

    def power_off(self) -> None:
        """Kills every process of the node at once, as a power failure does, and removes what the memory of a machine
        holds: sockets, mounts and addresses of Pods."""
        for process in self._processes.values():
            process.stop(grace=0.0)
        deadline = time.monotonic() + 30.0
        while pids := [*self.container_processes(), *self._shims()]:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise StartError(f"processes of {self.name} do not end: {pids}")
            time.sleep(0.05)
        self._unmount()
        for volatile in ("run", "addresses"):
            shutil.rmtree(self.directory / volatile, ignore_errors=True)

    def reboot(self) -> None:
        """Powers the node off and on; returns when it is Ready again."""
        self.power_off()
        self.start_containerd()
        self.start_kubelet()
        self.wait_until_ready()

    # ---------------------------------------------------------------------------------------------- state

    def wait_until_ready(self) -> None:
        """Waits until the API server shows the node as Ready, by a kubelet that runs now."""
        begun = time.time()
        self._processes["kubelet"].wait_until(lambda: self.ready(begun), _READY_WITHIN)

    def ready(self, since: float = 0.0) -> bool:
        """Whether the node is Ready, and its Lease was renewed after the time `since`."""
        try:
            node = self._plane.admin.get(f"/api/v1/nodes/{self.name}")
            lease = self._plane.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{self.name}")
        except ApiError:
            return False
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
        conditions = {each["type"]: each["status"] for each in node["status"].get("conditions") or ()}
        return conditions.get("Ready") == "True" and renewed >= since

    def container_processes(self, pod: Mapping[str, Any] | None = None) -> list[int]:
        """The process ids of all containers of the node, or of one Pod."""
        wanted = "" if pod is None else pod["metadata"]["uid"]
        found = set()
        root = cgroup_roots()[0]
        for directory, _, files in os.walk(f"{root}{self._cgroup}"):
            if "cgroup.procs" in files and wanted in directory:
                with contextlib.suppress(OSError):
                    found |= set(map(int, Path(directory, "cgroup.procs").read_text(encoding="ascii").split()))
        return sorted(found)

    # ---------------------------------------------------------------------------------------------- parts

    def _spawn(self, name: str, command: list[str | Path]) -> Process:
        process = self._processes[name] = Process(f"{name}-{self.name}", command, self._logs)
        return process

    def _containerd_answers(self) -> bool:
        command = [str(self._binaries / "ctr"), "--address", str(self._socket), "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _shims(self) -> Iterator[int]:
        """The processes that containerd leaves beside each Pod."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_text(encoding="utf-8", errors="replace").split("\0")
                if words[0].endswith("containerd-shim-runc-v2") and str(self._socket) in words:
                    yield int(file.parent.name)

    def _unmount(self) -> None:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        targets = [line.split()[1] for line in lines]
        for target in reversed(targets):
            if Path(target).is_relative_to(self.directory):
                subprocess.run(["umount", "--lazy", target], check=False, capture_output=True)

    @property
    def _socket(self) -> Path:
        return self.directory / "containerd.sock"

    def _write_configuration(self) -> None:
        registry = self.directory / "registries" / "_default"
        registry.mkdir(parents=True)
        url = f"http://{self._registry}"
        content = f'server = "{url}"\n[host."{url}"]\ncapabilities = ["pull", "resolve"]\n'
        (registry / "hosts.toml").write_text(content, encoding="utf-8")
        (self.directory / "containerd.toml").write_text(self._containerd_configuration(), encoding="utf-8")
        network = self.directory / "network"
        network.mkdir()
        (network / "pods.conflist").write_text(json.dumps(self._network()), encoding="utf-8")
        (self.directory / "resolv.conf").write_text(f"nameserver {self._dns}\n", encoding="ascii")
        (self.directory / "kubelet.json").write_text(json.dumps(self._kubelet_configuration()), encoding="utf-8")

    def _network(self) -> dict[str, Any]:
        ranges = [[{"subnet": f"10.244.{self._number}.0/24"}]]
        addresses = {
            "type": "host-local",
            "dataDir": str(self.directory / "addresses"),
            "ranges": ranges,
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        # A veth pair and a route for each Pod: packets between Pods pass the rules of Services.
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}

    def _containerd_configuration(self) -> str:
        return f"""
version = 3
root = "{self.directory}/containerd"
state = "{self.directory}/run/containerd"
[grpc]
  address = "{self._socket}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{self.directory}/registries"
[plugins.'io.containerd.cri.v1.runtime']
  # Machines for tests often lack CAP_SYS_RESOURCE, without which no process gets a lower score than its parent.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{shutil.which("runc")}"
      Root = "{self.directory}/run/runc"
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{CNI_PLUGINS}"]
    conf_dir = "{self.directory}/network"
"""

    def _kubelet_configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # Only this node's namespaces reach the kubelet.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "address": self.address,
            "port": 10250,
            "healthzBindAddress": self.address,
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "localStorageCapacityIsolation": False,
            "clusterDNS": [self._dns],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.directory / "resolv.conf"),
            "podLogsDir": str(self.directory / "logs"),
            "serializeImagePulls": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
            # Tests wait for these.
            "nodeLeaseDurationSeconds": LEASE_SECONDS,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "5s",
        }
