"""The flags that all roles (scheduler, controllers) have in common, and how a role is run."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduler.api.names import SYSTEM_NAMESPACE
from scheduler.cli.flags import ADDRESS, DURATION, VERBOSITY, Decorator, boolean, options_as, without_effect
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.cluster.kube.process.lease import LeaseSettings
    from scheduler.cluster.kube.process.settings import ProcessSettings
    from scheduler.cluster.kube.transport.credentials import Credentials

FAILED = 1
BAD_CONFIGURATION = 2

kubeconfig_option: Callable[[Any], Any] = click.option(
    "--kubeconfig", metavar="FILE", default="", show_default="the service account, else KUBECONFIG",
    help="Credentials for the API server.",
)  # fmt: skip
master_option: Callable[[Any], Any] = click.option(
    "--master", metavar="URL", default="", show_default="the kubeconfig's", help="Address of the API server."
)
verbosity_option: Callable[[Any], Any] = click.option(
    "-v", "--v", "verbosity", type=VERBOSITY, default="2", help="0: warnings; 1 to 3: normal operation; 4: everything."
)
log_format_option: Callable[[Any], Any] = click.option(
    "--log-format", type=click.Choice(["auto", "json", "console"]), default="auto",
    help="auto: console on a terminal, else json.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoleFlags:
    """The values of the flags. Durations are in seconds."""

    leader_elect: bool
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_retry_period: float
    leader_elect_resource_name: str
    leader_elect_resource_namespace: str
    kubeconfig: str
    master: str
    kube_api_qps: float
    kube_api_burst: int
    enable_metrics: bool
    listen_address: str
    enable_healthz: bool
    healthz_address: str
    verbosity: int
    log_format: str

    def configure_logs(self) -> None:
        from scheduler.observability import logs

        logs.configure(self.verbosity, self.log_format)

    def process_settings(self, default_name: str) -> "ProcessSettings":
        """``default_name``: the name of the Lease if no flag gives one. Raises click.UsageError."""
        from scheduler.cluster.kube.process.settings import ProcessSettings

        return ProcessSettings(
            lease=self._lease(default_name),
            qps=self.kube_api_qps,
            burst=self.kube_api_burst,
            metrics_address=self.listen_address if self.enable_metrics else "",
            health_address=self.healthz_address if self.enable_healthz else "",
        )

    def _lease(self, default_name: str) -> "LeaseSettings | None":
        """The settings of the lease, or None without leader election. Raises click.UsageError."""
        from scheduler.cluster.kube.process.lease import LeaseSettings

        if not self.leader_elect_retry_period < self.leader_elect_renew_deadline < self.leader_elect_lease_duration:
            raise click.UsageError(
                "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that longer "
                "than --leader-elect-retry-period"
            )
        if not self.leader_elect:
            return None
        return LeaseSettings(
            self.leader_elect_resource_namespace,
            self.leader_elect_resource_name or default_name,
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        )

    def credentials(self) -> "Credentials":
        from scheduler.cluster.kube.transport.credentials import Credentials

        return Credentials(kubeconfig=self.kubeconfig, master=self.master)


def role_flags(*, lease_name: str, metrics: str) -> Decorator:
    """Adds the flags to a command, whose function takes the parameter ``role``.

    ``lease_name``: the default name of the Lease in the help; ``metrics``: the default address of /metrics.
    """
    return options_as(
        "role",
        RoleFlags,
        boolean("--leader-elect", default=True, help="Elect a leader among several processes; only the leader works."),
        click.option("--leader-elect-lease-duration", type=DURATION, default="15s", help="Duration of the lease."),
        click.option(
            "--leader-elect-renew-deadline",
            type=DURATION,
            default="10s",
            help="Stop when the lease is not renewed within this time.",
        ),
        click.option("--leader-elect-retry-period", type=DURATION, default="2s", help="Pause between attempts."),
        click.option("--leader-elect-resource-name", default="", show_default=lease_name, help="Name of the Lease."),
        click.option("--leader-elect-resource-namespace", default=SYSTEM_NAMESPACE, help="Namespace of the Lease."),
        kubeconfig_option,
        master_option,
        click.option("--kube-api-qps", type=float, default=2000, help="Requests per second; 0 for no limit."),
        click.option("--kube-api-burst", type=click.IntRange(1), default=2000, help="Burst of requests."),
        boolean("--enable-metrics", default=True, help="Serve /metrics."),
        click.option("--listen-address", type=ADDRESS, default=metrics, help="Address of /metrics."),
        boolean("--enable-healthz", default=True, help="Serve /healthz and /readyz."),
        click.option("--healthz-address", type=ADDRESS, default=":11251", help="Address of /healthz and /readyz."),
        verbosity_option,
        log_format_option,
        without_effect("--logtostderr", "--enable-pprof"),
    )


def serve(command: str, main: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Runs a role on an event loop, and exits with its exit code."""
    from scheduler.cluster.kube.transport.credentials import CredentialsError

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(main())
    except (CredentialsError, OSError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        echo(f"volcano-py {command}: {reason}", err=True)
        code = FAILED
    sys.exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Returns uvloop's event loop if it is installed: it halves the cost of watches and bindings."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
