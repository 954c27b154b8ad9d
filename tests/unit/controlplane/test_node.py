"""Real nodes, as far as no node is needed: what a machine must have, names of images, and the programs to build."""

from pathlib import Path

import pytest

from controlplane import build
from controlplane.node import images, preflight
from controlplane.node.registry import path_of


def everything(program: str) -> str | None:
    return f"/usr/bin/{program}"


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "cgroup_roots", lambda: [Path("/sys/fs/cgroup")])


def test_a_machine_that_permits_everything_has_no_obstacle() -> None:
    assert preflight.obstacle(everything, lambda _command: True) is None


def test_missing_packages_are_named_together_with_the_command_that_installs_them() -> None:
    def some(program: str) -> str | None:
        return None if program in ("runc", "/usr/lib/cni/ptp") else program

    assert preflight.obstacle(some) == (
        "real nodes need the Debian packages containernetworking-plugins runc: "
        "apt-get install containernetworking-plugins runc"
    )


def test_another_user_than_root_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert (preflight.obstacle(everything) or "").startswith("real nodes need root")


@pytest.mark.parametrize(
    ("refused", "named"),
    [("true", "namespaces"), ("tmpfs", "tmpfs"), ("overlay", "overlay"), ("veth", "veth"), ("nft", "nftables")],
)
def test_the_permission_that_lacks_is_named_in_one_line(refused: str, named: str) -> None:
    reason = preflight.obstacle(everything, lambda command: refused not in command) or ""
    assert named in reason and reason.endswith("this machine does not permit them") and "\n" not in reason


V1 = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


@pytest.mark.parametrize(
    ("mounts", "roots"),
    [
        (V1, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd"]),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", ["/sys/fs/cgroup"]),
        ("cgroup2 /sys/fs/cgroup cgroup2 ro,nosuid 0 0\n", []),
    ],
)
def test_writable_hierarchies_of_cgroups_are_found(tmp_path: Path, mounts: str, roots: list[str]) -> None:
    # A fixture replaces the function for the other tests.
    (tmp_path / "mounts").write_text(mounts, encoding="utf-8")
    assert CGROUP_ROOTS(tmp_path / "mounts") == [Path(root) for root in roots]


CGROUP_ROOTS = preflight.cgroup_roots


@pytest.mark.parametrize(
    ("image", "path"),
    [
        ("busybox:1.36.1", "library/busybox:1.36.1"),
        ("volcanosh/example-mpi:0.0.3", "volcanosh/example-mpi:0.0.3"),
        ("registry.k8s.io/pause:3.10", "pause:3.10"),
        ("localhost/volcano-py:dev", "volcano-py:dev"),
        ("127.0.0.1:5000/a/b:1", "a/b:1"),
    ],
)
def test_a_registry_has_an_image_under_the_path_that_clients_ask_for(image: str, path: str) -> None:
    assert path_of(image) == path


def test_every_recipe_has_a_file_and_every_file_a_recipe() -> None:
    names = {file.name.partition(".")[0] for file in images.RECIPES.iterdir()}
    assert names == {"debian", *(recipe.name for recipe in images.RECIPES_IN_ORDER)}


def test_the_programs_of_a_node_are_named() -> None:
    assert [tool.binary for tool in build.tools(build.NODE)] == [
        *("kube-proxy", "kubelet"),
        *("containerd", "containerd-shim-runc-v2", "ctr"),
        "registry",
        "coredns",
    ]


def test_kubelet_and_control_plane_are_of_one_release() -> None:
    pin = f"k8s.io/kubernetes {build.kubernetes_version()}"
    assert pin in (build.NODE[0] / "go.mod").read_text(encoding="utf-8")
