"""A playground beside a control plane: simulated NPU nodes for the tests of whole flows."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from tests.integration.programs import Program, print_end, run


class Playground:
    """Runs ``volcano-py playground`` on a control plane, as a process."""

    def __init__(self, plane: ControlPlane, directory: Path, *options: str) -> None:
        self._plane = plane
        self.log = directory / "playground.log"
        self.log.touch()
        self.process = Program(self._command(*options, "-o", "json"), self.log)

    def command(self, *arguments: str) -> str:
        """Runs a command such as ``fail``, and returns what it prints."""
        done = run(self._command(*arguments))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> int:
        """Stops the process as Ctrl-C does. Returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(40)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def news(self) -> list[dict[str, Any]]:
        """The reports of the process so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def device_info(self, node: str) -> dict[str, Any]:
        """The ConfigMap that the device plugin of a node wrote; empty if there is none."""
        path = f"/api/v1/namespaces/kube-system/configmaps/mindx-dl-deviceinfo-{node}"
        try:
            found: dict[str, Any] = self._plane.admin.get(path)["data"]
        except ApiError as error:
            assert error.status == 404
            return {}
        return {**found, "DeviceInfoCfg": json.loads(found["DeviceInfoCfg"])}

    def devices(self, node: str) -> dict[str, str]:
        """The lists of devices that the device plugin of a node reported."""
        info = self.device_info(node)
        lists: dict[str, str] = info["DeviceInfoCfg"]["DeviceInfo"]["DeviceList"] if info else {}
        return lists

    def _command(self, *arguments: str) -> list[str]:
        given = list(arguments)
        verb = [given.pop(0)] if given and not given[0].startswith("-") else []
        return ["playground", *verb, "--kubeconfig", str(self._plane.kubeconfig), *given]


@contextmanager
def playing(plane: ControlPlane, directory: Path, *options: str) -> Iterator[Playground]:
    """Simulated nodes for the duration of the block; prints their reports if the test fails."""
    playground = Playground(plane, directory, *options)
    try:
        yield playground
    finally:
        playground.stop()
        print_end(playground.log)
