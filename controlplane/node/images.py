"""Builds the container images of the node tests with buildah, and puts them into the registry::

    python -m controlplane.node.images

Every image is made here: the recipes beside this file start from Debian's packages, and the image of the program is
that of its Dockerfile. An image is built again when its recipe, or a file of the program, has changed.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from controlplane import build
from controlplane.manifests import CHART
from controlplane.node.preflight import obstacle
from controlplane.node.registry import Registry, path_of

ROOT = build.HERE.parent
RECIPES = Path(__file__).resolve().parent / "recipes"
PROGRAM = f"volcano-py:{yaml.safe_load((CHART / 'Chart.yaml').read_text(encoding='utf-8'))['appVersion']}"
"""The image of the program, under the name that the chart has by default."""
PAUSE = "registry.k8s.io/pause:3.10"
_RELEASE = "bookworm"
_BASE = "debian"
_BASE_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"


@dataclass(frozen=True, slots=True)
class Recipe:
    """`name`: of the file in `recipes`. `images`: the names under which the registry has the result. `base`: the recipe
    whose image it starts from."""

    name: str
    images: tuple[str, ...]
    base: str | None = None


RECIPES_IN_ORDER = (
    Recipe("busybox", ("busybox:1.36.1", "busybox:latest")),
    Recipe("pause", (PAUSE,), "busybox"),
    Recipe("python", ("python:3.11-slim",), _BASE),
    Recipe("nginx", ("nginx:1.27",), _BASE),
    Recipe("redis", ("redis:7.4",), _BASE),
    Recipe("mpi", ("volcanosh/example-mpi:0.0.3",), _BASE),
)


class ImageError(Exception):
    """An image could not be built; the message ends with the output of the command."""


def ensure(logs: Path) -> None:
    """Builds the images that are not in the registry. Raises `ImageError` and the exceptions of `Registry`."""
    place = build.cache() / "images"
    place.mkdir(parents=True, exist_ok=True)
    with build.locked(place / ".lock", lambda: print("another process is building images; waiting for it …")):
        stamps = _Stamps(place)
        recipe_of_base = (RECIPES / f"{_BASE}.Containerfile").read_bytes()
        base = _digest(_RELEASE.encode(), _BASE_PACKAGES.encode(), recipe_of_base)
        program = _digest(base.encode(), *_content_of_the_program())
        wanted = {recipe: _stamp_of(recipe, base) for recipe in RECIPES_IN_ORDER}
        if all(stamps.has(recipe.name, wanted[recipe]) for recipe in RECIPES_IN_ORDER) and stamps.has(
            "program", program
        ):
            return
        builder = _Builder(place)
        registry = Registry(logs)
        try:
            if not stamps.has(_BASE, base):
                _report(_BASE)
                builder.debian()
                stamps.put(_BASE, base)
            for recipe in RECIPES_IN_ORDER:
                if not stamps.has(recipe.name, wanted[recipe]):
                    _report(recipe.name)
                    builder.build(recipe)
                    for image in recipe.images:
                        builder.push(recipe.name, registry, image)
                    stamps.put(recipe.name, wanted[recipe])
            if not stamps.has("program", program):
                _report("program")
                builder.program()
                builder.push("program", registry, PROGRAM)
                stamps.put("program", program)
        finally:
            registry.stop()


class _Stamps:
    """What each image in the registry was built from."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def has(self, name: str, stamp: str) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self._file(name).read_text(encoding="ascii") == stamp
        return False

    def put(self, name: str, stamp: str) -> None:
        self._file(name).write_text(stamp, encoding="ascii")

    def _file(self, name: str) -> Path:
        return self._place / f"{name}.stamp"


class _Builder:
    """Runs buildah, whose storage is in the cache directory."""

    def __init__(self, place: Path) -> None:
        self._storage = (
            "--storage-driver=overlay",
            "--root",
            str(place / "buildah"),
            "--runroot",
            str(place / "buildah-run"),
        )
        # Installations within an image use this machine's network, certificates and settings of pip.
        files = ("/etc/ssl/certs", "/etc/resolv.conf", "/etc/pip.conf")
        self._shared = [f"--volume={file}:{file}:ro" for file in files if Path(file).exists()]

    def debian(self) -> None:
        """Makes the base image: a small Debian with Python."""
        with tempfile.TemporaryDirectory(prefix="debian-") as directory:
            root = Path(directory, "root")
            _run(["debootstrap", "--variant=minbase", f"--include={_BASE_PACKAGES}", _RELEASE, str(root)])
            for archive in (root / "var/cache/apt/archives").glob("*.deb"):
                archive.unlink()
            Path(root, "usr/local/bin/python").symlink_to("/usr/bin/python3")
            for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
                marker.unlink()
            self._bud(_BASE, RECIPES / f"{_BASE}.Containerfile", Path(directory))

    def build(self, recipe: Recipe) -> None:
        """Builds the image of a recipe."""
        with tempfile.TemporaryDirectory(prefix="image-") as directory:
            if recipe.base is None:
                program = shutil.which("busybox")
                assert program is not None  # see `preflight`
                shutil.copy(program, directory)
            for file in RECIPES.glob(f"{recipe.name}.*"):
                shutil.copy(file, directory)
            shared = self._shared if recipe.base == _BASE else ()
            self._bud(recipe.name, Path(directory, f"{recipe.name}.Containerfile"), Path(directory), *shared)

    def program(self) -> None:
        """Builds the image of the program from its Dockerfile."""
        self._bud(
            "program", ROOT / "Dockerfile", ROOT, f"--build-arg=PYTHON_IMAGE={_local(_BASE)}", "--layers", *self._shared
        )

    def push(self, name: str, registry: Registry, image: str) -> None:
        """Puts a built image into the registry."""
        target = f"docker://{registry.address}/{path_of(image)}"
        _run(["buildah", *self._storage, "push", "--quiet", "--tls-verify=false", _local(name), target])

    def _bud(self, name: str, recipe: Path, context: Path, *options: str) -> None:
        _run(
            [
                *("buildah", *self._storage, "bud", "--quiet", "--isolation=chroot", "--network=host", "--pull=never"),
                *(*options, f"--file={recipe}", f"--tag={_local(name)}", str(context)),
            ]
        )


def _local(name: str) -> str:
    return f"localhost/volcano-py-node/{name}"


def _stamp_of(recipe: Recipe, base: str) -> str:
    content = [file.read_bytes() for file in sorted(RECIPES.glob(f"{recipe.name}.*"))]
    if recipe.base == _BASE:
        content.append(base.encode())
    elif recipe.base is not None:
        content += [file.read_bytes() for file in sorted(RECIPES.glob(f"{recipe.base}.*"))]
    return _digest(repr(recipe).encode(), *content)


def _content_of_the_program() -> Iterator[bytes]:
    """What the Dockerfile copies."""
    names = ("Dockerfile", "README.md", "LICENSE", "pyproject.toml", "requirements.lock", "requirements-runtime.lock")
    files = [ROOT / name for name in names]
    for folder in ("image", "scheduler"):
        files += sorted(file for file in (ROOT / folder).rglob("*") if "__pycache__" not in file.parts)
    for file in files:
        if file.is_file():
            yield str(file.relative_to(ROOT)).encode()
            yield file.read_bytes()


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        output = "\n".join(done.stdout.strip().splitlines()[-20:])
        raise ImageError(f"{' '.join(command)} failed with status {done.returncode}:\n{output}")


def _report(name: str) -> None:
    print(f"building the image {name} …", flush=True)


def main() -> int:
    """The entry point of the command line: builds the programs of a node and the images. Returns 1 on failure."""
    reason = obstacle()
    if reason is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="registry-") as logs:
            build.ensure(lambda line: print(line, flush=True), build.NODE)
            ensure(Path(logs))
    except (build.BuildError, ImageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
