"""A registry of container images on loopback, whose images stay in the cache directory of the binaries.

Containerd asks it for every image, whatever registry the name of the image has, so manifests need no change.
"""

import functools
import json
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from controlplane import build
from controlplane.process import Process, free_ports


def storage() -> Path:
    """The directory of the images."""
    return build.cache() / "images" / "registry"


class Registry:
    """A running registry; `address` is its host and port."""

    def __init__(self, logs: Path) -> None:
        """Builds the programs of a node if need be. Raises `build.BuildError` or `controlplane.process.StartError`."""
        binaries = build.ensure(functools.partial(print, file=sys.stderr, flush=True), build.NODE)
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        directory = storage()
        directory.mkdir(parents=True, exist_ok=True)
        configuration = logs / "registry.json"
        content = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(directory)}},
            "http": {"addr": self.address},
        }
        configuration.write_text(json.dumps(content), encoding="utf-8")
        command: list[str | Path] = ["env", "OTEL_TRACES_EXPORTER=none", binaries / "registry", "serve", configuration]
        self._process = Process("registry", command, logs)
        self._process.wait_until(self._answers, 30.0)

    def stop(self) -> None:
        """Ends the process."""
        self._process.stop()

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://{self.address}/v2/", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def path_of(image: str) -> str:
    """The path under which clients ask a registry for an image: without the name of the registry, and with the prefix
    of Docker's official images."""
    first, _, rest = image.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return rest
    return image if rest else f"library/{image}"
