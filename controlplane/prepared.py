"""Data of etcd in which the API server has its own objects and our resource definitions already.

To accept the definitions costs an API server as much time as to start. So one server does it, an archive of etcd's
files is kept in the cache directory of the binaries, and other control planes start from that
(`ControlPlane(data=...)`). The name of the archive changes with whatever decides what is in it.
"""

import hashlib
import tarfile
import tempfile
from pathlib import Path

from controlplane import build, run
from controlplane.run import CRD_DIRECTORY, ETCD_DATA, ControlPlane


def with_definitions(crds: Path = CRD_DIRECTORY) -> Path:
    """The archive of etcd's data with the definitions of `crds`; made if there is none yet.

    Two processes may call this at once: the second waits for the first. Raises what `ControlPlane.start` and
    `ControlPlane.apply_crds` raise.
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
    """Where the data is, or will be once made, that the program `server` has written with the definitions of `crds`."""
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
