"""Why this machine cannot run real nodes: one line that names the missing permission or the missing Debian packages.

Only what a machine can lack is checked. The Go programs of a node are built by `controlplane.build`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CNI_PLUGINS = Path("/usr/lib/cni")
"""The directory in which the Debian package puts the CNI plugins."""

_PACKAGES = {
    "runc": "runc",
    "nft": "nftables",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "ip": "iproute2",
    str(CNI_PLUGINS / "ptp"): "containernetworking-plugins",
}
"""The programs that a node and its images need, and the Debian packages that contain them."""

_TRIALS = (
    ("new network, mount, PID, IPC and UTS namespaces (CAP_SYS_ADMIN)", "true"),
    ("mounts of type tmpfs (CAP_SYS_ADMIN)", "mount -t tmpfs none /mnt"),
    (
        "mounts of type overlay (CAP_SYS_ADMIN, and a kernel with overlayfs)",
        'd=$(mktemp -d) && mkdir "$d/l" "$d/u" "$d/w" "$d/m"'
        ' && mount -t overlay -o "lowerdir=$d/l,upperdir=$d/u,workdir=$d/w" none "$d/m" && umount "$d/m"'
        ' && rm -rf "$d"',
    ),
    ("network interfaces of type veth (CAP_NET_ADMIN)", "ip link add node0 type veth peer name node1"),
    ("tables of nftables (CAP_NET_ADMIN, and a kernel with nf_tables)", "nft add table ip trial"),
    ("forwarding of packets (a writable /proc/sys/net)", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
)
"""What a node does, and a shell command that tries it within new namespaces."""

UNSHARE = ("unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
"""Runs a command in namespaces of its own, in which it has the process id 1."""


def obstacle(
    found: Callable[[str], str | None] = shutil.which, permitted: Callable[[str], bool] | None = None
) -> str | None:
    """Returns why no real node can run here, in one line, or None.

    `found` looks a program up, `permitted` tries a shell command in new namespaces.
    """
    if sys.platform != "linux":
        return "real nodes need Linux"
    if missing := sorted({package for program, package in _PACKAGES.items() if found(program) is None}):
        return f"real nodes need the Debian packages {' '.join(missing)}: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "real nodes need root: this user may not create namespaces and mounts"
    if not cgroup_roots():
        return "real nodes need writable cgroups: none are mounted below /sys/fs/cgroup, or they are read-only"
    for what, command in _TRIALS:
        if not (permitted or _permitted)(command):
            return f"real nodes need {what}: this machine does not permit them"
    return None


def cgroup_roots(mounts: Path = Path("/proc/self/mounts"), *, every: bool = False) -> list[Path]:
    """The writable hierarchies of cgroups: one with cgroup v2; with v1 one for each controller, and that of systemd.
    `every` includes a hierarchy of v2 beside those of v1; it has no controllers, but container runtimes write there."""
    found: dict[str, list[Path]] = {"cgroup": [], "cgroup2": []}
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _source, target, kind, options, *_ = line.split()
        if kind in found and "rw" in options.split(","):
            found[kind].append(Path(target))
    return [*found["cgroup"], *found["cgroup2"]] if every else found["cgroup"] or found["cgroup2"]


def _permitted(command: str) -> bool:
    trial = [*UNSHARE, "sh", "-ec", command]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0
