"""A control plane with real nodes, on which the chart is installed with Helm. It runs in the namespaces of
`controlplane.node.namespaces`.
"""

import functools
import json
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from controlplane import build
from controlplane.manifests import CHART, NAMESPACE, RELEASE
from controlplane.node.node import LEASE_SECONDS, POD_NETWORK, Node, address_of
from controlplane.node.registry import Registry
from controlplane.process import Process
from controlplane.run import ControlPlane

_SERVICE_OF_THE_APISERVER = ("10.96.0.1", "kubernetes.default.svc")
_DNS = address_of(254)
_CONTROL_PLANE = address_of(253)
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]}],
}


class Cluster:
    """A cluster with real nodes `node-1`, `node-2` and so on. A context manager: the nodes are Ready within the block,
    and nothing is left after it.

    The images of `controlplane.node.images` have to be built. Raises `build.BuildError` or `StartError`.
    """

    def __init__(self, nodes: int = 3, logs: Path | None = None) -> None:
        """`logs`: the directory of the log files; by default they are deleted at the end."""
        self._number = nodes
        self._given_logs = logs
        self._stack = ExitStack()
        self.nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        for address in (_DNS, _CONTROL_PLANE):
            subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-")))
        policy = directory / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")
        self._audit = directory / "audit.log"
        self.plane = ControlPlane(
            self._given_logs,
            disable_admission=(),
            hosts=(_CONTROL_PLANE, *_SERVICE_OF_THE_APISERVER),
            apiserver_options=[
                "--bind-address=0.0.0.0",
                f"--advertise-address={_CONTROL_PLANE}",
                "--endpoint-reconciler-type=lease",
                # In addition to RBAC: kubelets have the rights of their own node only.
                "--authorization-mode=Node",
                "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
                # Webhooks and aggregated APIs are reached at the addresses of their Pods.
                "--enable-aggregator-routing=true",
                "--kubelet-preferred-address-types=InternalIP",
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self._audit}",
                "--audit-log-mode=blocking",
            ],
        )
        self._stack.callback(self.plane.stop)
        self.plane.start()
        self.plane.start_controller_manager(
            ["*"],
            [
                f"--service-account-private-key-file={self.plane.signing_key}",
                f"--root-ca-file={self.plane.authority.path}",
                "--use-service-account-credentials=true",
                f"--node-monitor-grace-period={LEASE_SECONDS}s",
                "--node-monitor-period=2s",
            ],
        )
        self.plane.start_kube_scheduler()
        registry = Registry(self.plane.logs)
        self._stack.callback(registry.stop)
        for number in range(1, self._number + 1):
            node = Node(self.plane, registry.address, _DNS, number, self.plane.logs)
            self.nodes[node.name] = node
            self._stack.callback(node.stop)
            node.start()
        for node in self.nodes.values():
            node.wait_until_ready()
        self._start_network()

    def _start_network(self) -> None:
        """Starts kube-proxy, which serves Services for all nodes, because they share a network namespace, and the DNS
        server."""
        binaries = build.ensure(functools.partial(print, file=sys.stderr, flush=True), build.NODE)
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig_for("system:kube-proxy"))},
            "clusterCIDR": POD_NETWORK,
            "hostnameOverride": "node-1",
            "mode": "nftables",
            # The limits of connections belong to the machine.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        configuration = self.plane.directory / "kube-proxy.json"
        configuration.write_text(json.dumps(proxy), encoding="utf-8")
        self._spawn("kube-proxy", [binaries / "kube-proxy", f"--config={configuration}"])
        corefile = self.plane.directory / "Corefile"
        kubeconfig = self.plane.kubeconfig_for("test:coredns", ["system:masters"])
        zones = "cluster.local in-addr.arpa"
        corefile.write_text(
            f".:53 {{\n bind {_DNS}\n errors\n kubernetes {zones} {{\n  kubeconfig {kubeconfig}\n }}\n}}\n",
            encoding="utf-8",
        )
        self._spawn("coredns", [binaries / "coredns", "-conf", corefile])

    def _spawn(self, name: str, command: list[str | Path]) -> None:
        self._stack.callback(Process(name, command, self.plane.logs).stop, grace=0.0)

    # --------------------------------------------------------------------------------------------- chart

    def helm(self, *arguments: str | Path) -> str:
        """Returns the output of Helm in the namespace of the release; raises `AssertionError` with its stderr."""
        command = [str(self.plane.binaries / "helm"), *map(str, arguments), f"--namespace={NAMESPACE}"]
        command.append(f"--kubeconfig={self.plane.kubeconfig}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"helm {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def install(self, *options: str) -> None:
        """Installs the chart in a namespace that accepts restricted Pods only, and waits until all roles are Ready."""
        restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": restricted}})
        self.helm("install", RELEASE, CHART, *options, "--wait", "--timeout=120s")

    def role_logs(self, lines: int = 25) -> list[str]:
        """The last lines of the log of each role."""
        options = (
            f"--namespace={NAMESPACE}",
            f"--tail={lines}",
            "--prefix",
            f"--selector=app.kubernetes.io/instance={RELEASE}",
        )
        return self.plane.kubectl("logs", *options).splitlines()

    def requests(self) -> Counter[tuple[str, str, str, str, str]]:
        """The service account, verb, API group, resource and decision of RBAC (`allow` or `forbid`) of every request of
        the roles so far. (The status 403 has further causes, such as a namespace that is being deleted.)"""
        found: Counter[tuple[str, str, str, str, str]] = Counter()
        for line in self._audit.read_text(encoding="utf-8").splitlines():
            event: dict[str, Any] = json.loads(line)
            reference = event.get("objectRef") or {}
            resource = "/".join(filter(None, (reference.get("resource", ""), reference.get("subresource"))))
            account = event["user"]["username"].rpartition(":")[2]
            decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision", "")
            found[account, event["verb"], reference.get("apiGroup", ""), resource, decision] += 1
        return found
