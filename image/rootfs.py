"""Builds the root file system of the image: Python, the program and the system libraries that both load; no shell.

Usage: ``python -m image.rootfs ENVIRONMENT TARGET``. ENVIRONMENT is the virtual environment with the program. Its
Python, and the libraries that ``ldd`` finds, are copied from the system that this module runs on. As in other images
without a distribution, ``/var/lib/dpkg/status.d`` lists the Debian packages of these libraries for scanners.
"""

import argparse
import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

from image.elf import without_symbols
from image.prune import prune
from image.sbom import PROGRAM, bill, written

USER: Final = 65532
"""The id of the user that the image runs as."""
UNUSED: Final = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtle.py",
        "turtledemo",
    }
)
"""Names in the standard library that are left out: what has a user interface, installs packages or tests."""
EXTENSIONS: Final = re.compile(
    r"(_crypt|_ctypes_test|_curses.*|_dbm|_gdbm|_test.*|_tkinter|_xx.*|nis|ossaudiodev|readline|xx.*)\..*"
)
"""Extension modules that are left out, some of which need further system libraries."""
BILL: Final = "usr/share/volcano-py/sbom.cdx.json"
AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/:/\nvolcano-py:x:{USER}:{USER}:volcano-py:/:/\n",
    "etc/group": f"root:x:0:\nvolcano-py:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
COPIES: Final = ("/etc/os-release", "/etc/ld.so.cache", "/etc/ssl/openssl.cnf", AUTHORITIES)
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
"""A line of ldd that names a file."""


def build(environment: Path, target: Path) -> None:
    """Writes the file system to a directory, which must not exist."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    target.mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):  # links of Debian's merged /usr
        if (link := Path("/", name)).is_symlink():
            (target / name).symlink_to(link.readlink())
            (target / link.readlink()).mkdir(parents=True, exist_ok=True)
    _copy_python(environment, target)
    _copy_environment(environment, site_packages, target)
    own = list(_elf_files(target))
    libraries = sorted(_libraries(own, target))
    for library in libraries:
        _copy(library, target)
        if not (_packages(library) or _packages(library.resolve())):  # Python's own, where it is not Debian's
            own.append(_in(target, library))
    for file in own:
        file.write_bytes(without_symbols(file.read_bytes()))
    for path in COPIES:
        if Path(path).exists():
            _copy(Path(path), target)
    for name, text in FILES.items():
        goal = target / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(text, encoding="utf-8")
    temporary = target / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)
    _describe(libraries, target)
    bill_of_materials = target / BILL
    bill_of_materials.parent.mkdir(parents=True)
    bill_of_materials.write_text(written(bill(site_packages, target)), encoding="utf-8")
    compile_modules(target)
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        for each in (target, *target.rglob("*")):
            os.utime(each, (int(epoch), int(epoch)), follow_symlinks=False)


def compile_modules(target: Path) -> None:
    """Compiles all modules. The bytecode does not depend on the times of files, and is never checked against them."""
    done = compileall.compile_dir(
        target, maxlevels=64, quiet=1, stripdir=str(target), prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip
    if not done:
        raise SystemExit("some modules could not be compiled")


def _copy_python(environment: Path, target: Path) -> None:
    """Copies the interpreter, with the links by which the environment names it, and the standard library."""
    executable = environment / "bin" / "python"
    while executable.is_symlink():
        link = executable.readlink()
        executable = Path(os.path.normpath(executable.parent / link))
        if not executable.is_relative_to(environment):
            _copy(executable, target, link=executable.is_symlink())
    standard = Path(sysconfig.get_path("stdlib"))

    def unused(folder: str, names: list[str]) -> set[str]:
        return {
            name for name in names
            if name in UNUSED or name.startswith("config-") or name.endswith(".a")
            or (Path(folder).name == "lib-dynload" and EXTENSIONS.fullmatch(name))
        }  # fmt: skip

    shutil.copytree(standard, _in(target, standard), ignore=unused)


def _copy_environment(environment: Path, site_packages: Path, target: Path) -> None:
    """Copies the virtual environment, of whose programs only Python and those of volcano-py."""
    goal = _in(target, environment)
    shutil.copytree(environment, goal, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "include", "share"))
    (program,) = distributions(name=PROGRAM, path=[str(site_packages)])
    kept = {entry.name for entry in program.entry_points}
    for path in (goal / "bin").iterdir():
        if not path.is_symlink() and path.name not in kept:
            path.unlink()


def _elf_files(folder: Path) -> Iterator[Path]:
    """The programs and libraries in a directory."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _libraries(files: Iterable[Path], target: Path) -> Iterator[Path]:
    """The shared libraries of the system that files in ``target`` load."""
    found: set[str] = set()
    for path in files:
        # ldd reads the original of the file, beside which are the libraries that are in the target already.
        original = Path("/", path.relative_to(target))
        run = subprocess.run(["ldd", original], capture_output=True, text=True, check=False)
        if "not found" in run.stdout:
            raise SystemExit(f"{original}: {run.stdout}")
        found.update(_LIBRARY.findall(run.stdout))
    for name in found:
        if not _in(target, Path(name)).exists():
            yield Path(name)


def _describe(libraries: list[Path], target: Path) -> None:
    """Writes what Debian knows of the packages of libraries, with their licenses."""
    packages = {name for library in libraries for path in (library, library.resolve()) for name in _packages(path)}
    if not packages:
        return
    folder = target / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    for package in sorted({*packages, "base-files"}):
        shown = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            (folder / package.partition(":")[0]).write_text(shown.stdout, encoding="utf-8")
        if (license_ := Path("/usr/share/doc", package.partition(":")[0], "copyright")).exists():
            _copy(license_, target)


def _packages(path: Path) -> list[str]:
    """The Debian packages that have a file."""
    if shutil.which("dpkg-query") is None:
        return []
    owner = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False)
    return [line.partition(": ")[0] for line in owner.stdout.splitlines()]


def _copy(path: Path, target: Path, *, link: bool = False) -> None:
    """Copies a file to the same path. ``link``: as the link that it is."""
    goal = _in(target, path)
    goal.parent.mkdir(parents=True, exist_ok=True)
    if link:
        goal.symlink_to(path.readlink())
    else:
        shutil.copy(path, goal)


def _in(target: Path, path: Path) -> Path:
    return target / path.relative_to("/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path, metavar="ENVIRONMENT")
    parser.add_argument("target", type=Path, metavar="TARGET")
    arguments = parser.parse_args()
    for packages in arguments.environment.glob("lib/python*/site-packages"):
        prune(packages)
    build(arguments.environment.absolute(), arguments.target.absolute())
    size = sum(path.stat().st_size for path in arguments.target.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{arguments.target}: {size / 1e6:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
