"""A control plane with everything that runs on a live cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.run import CONTROLLERS, ControlPlane
from tests.integration.rights import account
from tests.integration.stage import a_control_plane, running


@contextmanager
def live_cluster(directory: Path, configuration: str) -> Iterator[ControlPlane]:
    """A cluster with kubelets, the controllers of Kubernetes, our controllers, and the scheduler with a
    configuration."""
    conf = directory / "scheduler.conf"
    conf.write_text(configuration)
    alone = "--leader-elect=false"
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.start_controller_manager((*CONTROLLERS, "resourceclaim-controller"))
        options = ("--schedule-period=200ms", f"--scheduler-conf={conf}", alone)
        with (
            running("controllers", account(plane, "controllers"), directory, alone),
            running("scheduler", account(plane, "scheduler"), directory, *options),
        ):
            yield plane
