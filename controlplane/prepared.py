"""Prepared data of etcd, with the API server's own objects and our resource definitions.

An API server needs as much time to accept the definitions as to start. So one server accepts them, an archive of etcd's
files is kept in the cache directory of the binaries, and other control planes start with this archive
(`ControlPlane(data=...)`). The name of the archive contains a hash of everything on which its content depends.
"""

import hashlib
import tarfile
import tempfile
from pathlib import Path

from controlplane import build, run
from controlplane.run import CRD_DIRECTORY, ETCD_DATA, ControlPlane


def with_definitions(crds: Path = CRD_DIRECTORY) -> Path:
    """Returns the archive of etcd's data with the definitions of `crds`, and creates it if it does not exist.

    Two processes may call this function at once: the second one waits for the first. Raises the exceptions of
    `ControlPlane.start` and `ControlPlane.apply_crds`.
    """
    server = build.ensure() / build.APISERVER
    found = archive(server, crds)
    if not found.is_file():
        found.parent.mkdir(parents=True, exist_ok=True)
        with build.locked(found.parent / ".etcd.lock"):
            if not found.is_file():
                _make(found, crds)
    return found


def archive(server: Path, crds: Path) -> Path:
    """Returns the path of the archive, created or not, of the data that the program `server` writes with the
    definitions of `crds`."""
    found = server.stat()
    digest = hashlib.sha256(f"{server} {found.st_size} {found.st_mtime_ns}".encode())
    for file in (Path(__file__), Path(run.__file__), *sorted(crds.glob("*.yaml"))):
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return build.cache() / f"etcd-{digest.hexdigest()[:16]}.tar.gz"


def _make(place: Path, crds: Path) -> None:
    with ControlPlane() as plane:
        plane.apply_crds(crds)
        plane.process(build.APISERVER).stop()
        plane.process("etcd").stop()
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".etcd-") as directory:
            unfinished = Path(directory) / place.name
            with tarfile.open(unfinished, "w:gz") as written:
                written.add(plane.directory / ETCD_DATA, ETCD_DATA)
            unfinished.replace(place)
