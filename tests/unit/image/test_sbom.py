"""The bill of materials of the image."""

from pathlib import Path

import pytest

from image.sbom import bill, written

PACKAGES = {
    "volcano_py": (
        "0.1.0",
        "License-Expression: Apache-2.0\nRequires-Dist: google-re2>=1.1\nRequires-Dist: mypy; extra == 'dev'\n",
    ),
    "google_re2": ("1.1", "Classifier: License :: OSI Approved :: BSD License\n"),
    "old": ("2.0", "License: MIT\n"),
}


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    for name, (version, more) in PACKAGES.items():
        folder = tmp_path / "packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{more}"
        (folder / "METADATA").write_text(text, encoding="utf-8")
    return tmp_path / "packages"


def test_packages_have_versions_addresses_licenses_and_dependencies(site_packages: Path) -> None:
    found = bill(site_packages, python="3.12.1")
    program = found["metadata"]["component"]
    assert (program["type"], program["purl"]) == ("application", "pkg:pypi/volcano-py@0.1.0")
    assert program["licenses"] == [{"expression": "Apache-2.0"}]
    components = {each["name"]: each for each in found["components"]}
    assert components.keys() == {"python", "google-re2", "old"}
    assert components["google-re2"]["licenses"] == [{"license": {"name": "BSD License"}}]
    assert components["old"]["licenses"] == [{"license": {"name": "MIT"}}]
    assert components["python"]["version"] == "3.12.1"
    depends = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    assert depends["pkg:pypi/volcano-py@0.1.0"] == ["pkg:pypi/google-re2@1.1"]


def test_debian_packages_of_a_root_file_system_are_listed(site_packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root/var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    (folder / "libc6").write_text("Package: libc6\nArchitecture: arm64\nVersion: 2.36-9+deb12u14\n", encoding="utf-8")
    purls = [each["purl"] for each in bill(site_packages, tmp_path / "root")["components"]]
    assert "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=arm64" in purls


def test_equal_packages_give_equal_bytes(site_packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = written(bill(site_packages))
    assert first == written(bill(site_packages))
    assert "timestamp" not in first
    assert "serialNumber" not in first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert bill(site_packages)["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
