"""Compiles the binaries of the control plane once, and prints their directory.

So that every developer can run the tests against a real API server, only Go has to be installed: the modules next to
this file name every program and pin every dependency, and the result is kept in a cache directory whose name is a hash
of their contents. Only the standard library is used, so that this runs before any environment exists::

    python3 -m controlplane.build

The last line printed is the directory of the binaries. If `KUBEBUILDER_ASSETS` is set, its binaries are used instead
and nothing is built. `controlplane.run` starts the programs.

Further programs for a few tests are in separate directories (`EXPORTERS`, `KIND`, `NODE`), so that a new pin of these
does not build the control plane again. `--kind` builds kind only, in less than a minute. `controlplane.node.images`
builds `NODE`, the programs of a real node.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = (HERE / "kubernetes", HERE / "kwok", HERE / "helm", HERE / "prometheus")
EXPORTERS = (HERE / "kube-state-metrics",)
KIND = (HERE / "kind",)
NODE = (HERE / "kubelet", HERE / "containerd", HERE / "registry", HERE / "coredns")

APISERVER = "kube-apiserver"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
CACHE_VARIABLE = "VOLCANO_PY_CONTROLPLANE"

# Without cgo, no C compiler is needed, and the binaries are static.
_GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GO111MODULE": "on"}
# The tag leaves the clients of cloud providers out of Prometheus, which take longer to compile than the rest of it.
_GO_OPTIONS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=remove_all_sd")

# A package is named after the last element of its import path, except where that is only a major version.
_BINARY_NAMES = {"go.etcd.io/etcd/server/v3": "etcd", "k8s.io/kube-state-metrics/v2": "kube-state-metrics"}

_TOOL_BLOCK = re.compile(r"^tool\s*\(\s*\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_TOOL_LINE = re.compile(r"^tool\s+([^\s(]+)\s*$", re.MULTILINE)
_KUBERNETES_VERSION = re.compile(r"^\s*(?:require\s+)?k8s\.io/kubernetes\s+(v\S+)", re.MULTILINE)


class BuildError(Exception):
    """The binaries cannot be provided; the message says what is missing or which compilation failed."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One program to compile: the `module` folder that pins it, its import path and the name of its binary."""

    module: Path
    package: str
    binary: str


def tools(modules: Sequence[Path] = MODULES) -> list[Tool]:
    """Every program named by a `tool` line of the Go modules, in their order."""
    found = []
    for module in modules:
        text = (module / "go.mod").read_text(encoding="utf-8")
        packages = _TOOL_LINE.findall(text)
        for block in _TOOL_BLOCK.findall(text):
            packages += [line.strip() for line in block.splitlines() if line.strip()]
        found += [Tool(module, name, _BINARY_NAMES.get(name, name.rsplit("/", 1)[-1])) for name in packages]
    return found


def kubernetes_version() -> str:
    """The release of Kubernetes that the Go module pins, such as `v1.36.1`; the API server reports the same."""
    match = _KUBERNETES_VERSION.search((MODULES[0] / "go.mod").read_text(encoding="utf-8"))
    if match is None:
        raise BuildError(f"{MODULES[0] / 'go.mod'} requires no k8s.io/kubernetes")
    return match[1]


def directory(modules: Sequence[Path] = MODULES) -> Path:
    """Returns the directory of the binaries, built or not: the given assets directory, else one directory per set of
    pins."""
    assets = os.environ.get(ASSETS_VARIABLE)
    if assets:
        return Path(assets)
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen) if modules is MODULES else Path(chosen, modules[0].name)
    return cache() / _fingerprint(modules)


def cache() -> Path:
    """Returns the cache directory, which is used unless the environment names the directory of the binaries."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "volcano-py" / "controlplane"


def ensure(report: Callable[[str], None] = lambda _line: None, modules: Sequence[Path] = MODULES) -> Path:
    """Builds the programs that are not built yet, and returns the directory of the binaries.

    `report` receives one line of progress per binary. Two processes may call this function at once: the second one
    waits for the first. Raises `BuildError` if Go is needed and missing, if a compilation fails, or if the given assets
    directory does not contain the API server, etcd or a requested exporter.
    """
    target = directory(modules)
    if os.environ.get(ASSETS_VARIABLE):
        needed = [APISERVER, "etcd"] if modules is MODULES else [tool.binary for tool in tools(modules)]
        lacking = [name for name in needed if not os.access(target / name, os.X_OK)]
        if lacking:
            raise BuildError(f"{ASSETS_VARIABLE}={target} holds no executable {' and no '.join(lacking)}")
        report(f"using the binaries of {ASSETS_VARIABLE}")
        return target
    if not _missing(target, modules):
        return target
    go = _go()
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / ".lock", lambda: report("another process is building; waiting for it …")):
        missing = _missing(target, modules)
        for number, tool in enumerate(missing, 1):
            report(f"[{number}/{len(missing)}] building {tool.binary} …")
            begun = time.monotonic()
            size = _compile(go, tool, target)
            report(f"[{number}/{len(missing)}] {tool.binary}: {size / 2**20:.0f} MiB, {time.monotonic() - begun:.0f} s")
        (target / ".stamp").write_text(_fingerprint(modules), encoding="utf-8")
    return target


def _fingerprint(modules: Sequence[Path]) -> str:
    """A short hash of everything on which the binaries depend: the pins, the options, the machine."""
    digest = hashlib.sha256()
    for module in modules:
        for file in (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))):
            digest.update(file.read_bytes())
    digest.update(" ".join((*_GO_OPTIONS, _link_flags(), platform.system(), platform.machine())).encode())
    return digest.hexdigest()[:16]


def _missing(target: Path, modules: Sequence[Path]) -> list[Tool]:
    """The programs that are not built yet; all programs if `target` contains binaries of other pins."""
    stamp = target / ".stamp"
    outdated = stamp.exists() and stamp.read_text(encoding="utf-8") != _fingerprint(modules)
    return [tool for tool in tools(modules) if outdated or not os.access(target / tool.binary, os.X_OK)]


def _link_flags() -> str:
    """Strips the symbols, and sets the version, which the source does not contain: otherwise the binaries would report
    v0.0.0."""
    version = kubernetes_version()
    major, minor, _patch = version.removeprefix("v").split(".", 2)
    package = "k8s.io/component-base/version"
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in values.items())])


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        wanted = re.search(r"^go\s+(\S+)", (MODULES[0] / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
        release = f" {wanted[1]} or newer" if wanted else ""
        raise BuildError(
            f"building the control plane needs the Go toolchain{release}, and there is no `go` in PATH. "
            f"Install it, or set {ASSETS_VARIABLE} to a directory that holds kube-apiserver and etcd."
        )
    return go


def _compile(go: str, tool: Tool, target: Path) -> int:
    """Compiles one program into `target` and returns its size in bytes. An incomplete binary never gets the name of the
    program."""
    unfinished = target / f".{tool.binary}.part"
    command = [go, "build", *_GO_OPTIONS, "-ldflags", _link_flags(), "-o", str(unfinished), tool.package]
    done = subprocess.run(
        command,
        cwd=tool.module,
        env={**os.environ, **_GO_ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        output = "\n".join(done.stdout.strip().splitlines()[-20:])
        raise BuildError(f"go build {tool.package} failed with status {done.returncode}:\n{output}")
    size = unfinished.stat().st_size
    unfinished.replace(target / tool.binary)
    return size


@contextmanager
def locked(path: Path, busy: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Holds an exclusive lock on `path`, which the system releases even if this process is killed. `busy` is called if
    another process holds the lock."""
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of the command line: builds, and prints the progress and finally the directory. Returns 1 on
    failure."""
    parser = argparse.ArgumentParser(
        prog="python3 -m controlplane.build",
        description="Compile the control plane for tests and print the directory of its binaries.",
    )
    parser.add_argument("--kind", action="store_true", help="compile kind only")
    options = parser.parse_args(arguments)
    try:
        # Assets without these programs are enough for most tests.
        every = (MODULES,) if os.environ.get(ASSETS_VARIABLE) else (EXPORTERS, KIND, MODULES)
        for modules in (KIND,) if options.kind else every:
            target = ensure(lambda line: print(line, flush=True), modules)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
