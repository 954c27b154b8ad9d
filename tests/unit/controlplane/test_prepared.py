"""The data of etcd with which a control plane of the tests starts."""

from pathlib import Path

from controlplane.prepared import archive


def files(directory: Path) -> tuple[Path, Path]:
    """A program and definitions."""
    server, crds = directory / "kube-apiserver", directory / "crds"
    crds.mkdir()
    server.write_bytes(b"server")
    (crds / "a.yaml").write_text("a: 1\n", encoding="utf-8")
    return server, crds


def test_equal_definitions_of_one_server_have_one_archive(tmp_path: Path) -> None:
    server, crds = files(tmp_path)
    found = archive(server, crds)
    (crds / "a.yaml").write_text("a: 1\n", encoding="utf-8")
    (crds / "README.md").write_text("no definition", encoding="utf-8")
    assert archive(server, crds) == found


def test_a_changed_definition_or_another_server_has_another_archive(tmp_path: Path) -> None:
    server, crds = files(tmp_path)
    found = {archive(server, crds)}
    (crds / "a.yaml").write_text("a: 2\n", encoding="utf-8")
    found.add(archive(server, crds))
    (crds / "b.yaml").write_text("a: 2\n", encoding="utf-8")
    found.add(archive(server, crds))
    (crds / "b.yaml").rename(crds / "c.yaml")
    found.add(archive(server, crds))
    server.write_bytes(b"another server")
    found.add(archive(server, crds))
    assert len(found) == 5
