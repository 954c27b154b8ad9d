"""Removes from installed packages what the program never imports.

Usage: ``python -m image.prune SITE_PACKAGES``. ``tests/integration/test_image.py`` imports all modules of the program,
and runs roles and commands, with what is left. Plugins of users find no more than that (docs/install.md).
"""

import argparse
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

UNUSED: Final = frozenset(
    {
        # The asynchronous client of kubernetes.
        "aiohttp-retry",
        # Highlighting and Markdown of rich.
        "markdown-it-py",
        "mdurl",
        "pygments",
        # The compiler of cffi.
        "pycparser",
    }
)
"""Names of distributions that others require, but of which the program imports nothing."""
PARTS: Final = (
    "cel_expr_python/ext",
    "kubernetes/aio",
    "kubernetes/client/api/[!_]*",
    "kubernetes/client/models/[!_]*",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/_pyinstaller",
    "numpy/doc",
    "numpy/f2py",
    "numpy/random/lib",
)
"""Patterns of directories and files that are removed."""
NAMES: Final = re.compile(r".*\.(a|c|cc|cpp|h|hpp|lib|pxd|pxi|pyi|pyx)|.*_tests?\.py|_.*_tests\..*\.so")
"""Names of files that only compilers, type checkers and tests read."""
TESTS: Final = frozenset({"test", "tests"})
RECORDS: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files of ``*.dist-info`` that describe an installation as it was before."""


def prune(site_packages: Path) -> None:
    """Removes files of the packages in a directory."""
    for distribution in list(distributions(path=[str(site_packages)])):
        if normalized(distribution.name) in UNUSED:
            _remove(distribution, site_packages)
    for pattern in PARTS:
        for path in list(site_packages.glob(pattern)):
            _delete(path)
    for path in list(_unread(site_packages)):
        _delete(path)


def normalized(name: str) -> str:
    """The name of a distribution as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _remove(distribution: Distribution, site_packages: Path) -> None:
    files = distribution.files or []
    for top in {file.parts[0] for file in files} - {".."}:
        _delete(site_packages / top)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _unread(site_packages: Path) -> Iterator[Path]:
    for path in site_packages.rglob("*"):
        if path.is_dir():
            if path.name in TESTS or path.name == "__pycache__":
                yield path
        elif NAMES.fullmatch(path.name) or (path.parent.suffix == ".dist-info" and path.name in RECORDS):
            yield path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site_packages", type=Path, metavar="SITE_PACKAGES")
    prune(parser.parse_args().site_packages)


if __name__ == "__main__":
    main()
