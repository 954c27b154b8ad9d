"""Writes a software bill of materials (CycloneDX 1.6, JSON) of installed packages.

Usage: ``python -m image.sbom [--root DIR] SITE_PACKAGES``. ``--root``: a root file system, whose Debian packages are
listed too. The same packages give the same bytes: there is no serial number, and a time only with SOURCE_DATE_EPOCH.
"""

import argparse
import json
import os
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from image.prune import normalized

Component = dict[str, Any]
PROGRAM: Final = "volcano-py"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def bill(site_packages: Path, root: Path | None = None, python: str = platform.python_version()) -> Component:
    """The bill of materials. ``root``: a root file system with Debian packages; ``python``: the version of Python."""
    found = sorted(distributions(path=[str(site_packages)]), key=lambda each: normalized(each.name))
    names = {normalized(each.name): _reference(each) for each in found}
    program = next((each for each in found if normalized(each.name) == PROGRAM), None)
    libraries = [_library(each) for each in found if each is not program]
    interpreter = f"pkg:generic/python@{python}"
    metadata: Component = {"component": {**_library(program), "type": "application"}} if program else {}
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    dependencies = [
        {"ref": _reference(each), "dependsOn": sorted({names[name] for name in _requires(each) if name in names})}
        for each in found
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [
            {"type": "application", "bom-ref": interpreter, "name": "python", "version": python, "purl": interpreter},
            *libraries,
            *(_debian(root) if root is not None else ()),
        ],
        "dependencies": dependencies,
    }


def written(document: Component) -> str:
    """A document as JSON."""
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _library(distribution: Distribution) -> Component:
    component: Component = {
        "type": "library",
        "bom-ref": _reference(distribution),
        "name": normalized(distribution.name),
        "version": distribution.version,
        "purl": _reference(distribution),
    }
    if license_ := _license(distribution):
        component["licenses"] = [license_]
    return component


def _license(distribution: Distribution) -> Component | None:
    """The license as the package states it: an SPDX expression, or the first line of a text."""
    metadata = distribution.metadata
    for expression in metadata.get_all("License-Expression") or ():
        return {"expression": expression}
    names = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier") or () if text.startswith("License ::")
    ]
    names += [text.strip().partition("\n")[0] for text in metadata.get_all("License") or ()]
    return next(({"license": {"name": name}} for name in names if name not in ("", "OSI Approved")), None)


def _reference(distribution: Distribution) -> str:
    return f"pkg:pypi/{normalized(distribution.name)}@{distribution.version}"


def _requires(distribution: Distribution) -> Iterator[str]:
    for line in distribution.requires or ():
        if (name := _NAME.match(line)) is not None:
            yield normalized(name[0])


def _debian(root: Path) -> Iterator[Component]:
    for path in sorted((root / "var/lib/dpkg/status.d").glob("*")):
        fields = dict(
            re.findall(r"^(Package|Version|Architecture): (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
        name, version = fields["Package"], fields["Version"]
        reference = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={fields['Architecture']}"
        yield {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("site_packages", type=Path, metavar="SITE_PACKAGES")
    arguments = parser.parse_args()
    print(written(bill(arguments.site_packages, arguments.root)), end="")


if __name__ == "__main__":
    main()
