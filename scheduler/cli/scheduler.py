"""``volcano-py scheduler``: the scheduler on a real cluster, with Volcano's flags.

Flags are read here and nowhere else; what they do is told by the parts they go to.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence

import click

from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER_NAME
from scheduler.cli.flags import ADDRESS, DURATION, KEY_VALUE, VERBOSITY, boolean

FAILED = 1
BAD_CONFIGURATION = 2


@click.command("scheduler", context_settings={"max_content_width": 120, "show_default": True})
@click.option("--scheduler-conf", metavar="FILE", default="", show_default="built in", help="Configuration file.")
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=(DEFAULT_SCHEDULER_NAME,),
    help="A schedulerName of Pods to answer to. Repeatable.",
)
@click.option("--schedule-period", type=DURATION, default="1s", help="Pause between two cycles.")
@click.option("--default-queue", default=DEFAULT_QUEUE, help="Queue of PodGroups that name none.")
@click.option(
    "--node-selector",
    "node_selector",
    type=KEY_VALUE,
    multiple=True,
    help="key:value; schedule only on nodes with one of these labels. Repeatable.",
)
@click.option(
    "--percentage-nodes-to-find",
    type=click.IntRange(0, 100),
    default=100,
    help="Per cent of the nodes that are enough to choose from; 0 takes fewer the more nodes there are.",
)
@click.option(
    "--minimum-feasible-nodes",
    type=click.IntRange(1),
    default=100,
    help="Nodes to choose from in any case.",
)
@boolean("--leader-elect", default=True, help="Of several schedulers, let one schedule.")
@click.option("--leader-elect-lease-duration", type=DURATION, default="15s", help="How long a lease holds.")
@click.option(
    "--leader-elect-renew-deadline", type=DURATION, default="10s", help="Give up when not renewed for so long."
)
@click.option("--leader-elect-retry-period", type=DURATION, default="2s", help="Pause between attempts.")
@click.option(
    "--leader-elect-resource-name",
    default="",
    show_default="the scheduler's name, or volcano-py if there are several",
    help="Name of the Lease.",
)
@click.option("--leader-elect-resource-namespace", default="volcano-system", help="Namespace of the Lease.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    default="",
    show_default="the service account, else KUBECONFIG",
    help="Credentials for the API server.",
)
@click.option("--master", metavar="URL", default="", show_default="the kubeconfig's", help="Address of the API server.")
@click.option("--kube-api-qps", type=float, default=2000, help="Requests per second; 0 for no limit.")
@click.option("--kube-api-burst", type=click.IntRange(1), default=2000, help="Requests that may come at once.")
@click.option("--bind-workers", type=click.IntRange(1, 4096), default=64, help="Bindings and evictions in flight.")
@boolean("--enable-metrics", default=True, help="Serve /metrics.")
@click.option("--listen-address", type=ADDRESS, default=":8080", help="Where /metrics is served.")
@boolean("--enable-healthz", default=True, help="Serve /healthz.")
@click.option("--healthz-address", type=ADDRESS, default=":11251", help="Where /healthz is served.")
@click.option(
    "-v", "--v", "verbosity", type=VERBOSITY, default="2", help="0: warnings; 1 to 3: what happens; 4: everything."
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "console"]),
    default="auto",
    help="auto: console on a terminal, else json.",
)
def scheduler_command(
    scheduler_conf: str,
    scheduler_names: Sequence[str],
    schedule_period: float,
    default_queue: str,
    node_selector: Sequence[tuple[str, str]],
    percentage_nodes_to_find: int,
    minimum_feasible_nodes: int,
    leader_elect: bool,
    leader_elect_lease_duration: float,
    leader_elect_renew_deadline: float,
    leader_elect_retry_period: float,
    leader_elect_resource_name: str,
    leader_elect_resource_namespace: str,
    kubeconfig: str,
    master: str,
    kube_api_qps: float,
    kube_api_burst: int,
    bind_workers: int,
    enable_metrics: bool,
    listen_address: str,
    enable_healthz: bool,
    healthz_address: str,
    verbosity: int,
    log_format: str,
) -> None:
    """Schedule Pods of a cluster, as a second scheduler beside Kubernetes' own.

    Exit codes: 0 stopped, 1 leadership lost or no way to the API server, 2 bad configuration.
    """
    import scheduler.actions
    import scheduler.plugins  # noqa: F401  both make their names known to the configuration
    from scheduler.cache import ClusterCache
    from scheduler.cluster.kube.credentials import Credentials, CredentialsError
    from scheduler.cluster.kube.daemon import Daemon, Settings
    from scheduler.cluster.kube.lease import LeaseSettings
    from scheduler.cluster.kube.reload import ConfigurationFile
    from scheduler.framework.configuration import ConfigurationError
    from scheduler.observability import logs

    logs.configure(verbosity, log_format)
    if not leader_elect_retry_period < leader_elect_renew_deadline < leader_elect_lease_duration:
        raise click.UsageError(
            "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that longer than "
            "--leader-elect-retry-period"
        )
    try:
        configuration = ConfigurationFile(scheduler_conf)
    except ConfigurationError as error:
        click.echo(f"volcano-py scheduler: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    names = tuple(dict.fromkeys(scheduler_names))
    lock = leader_elect_resource_name or (names[0] if len(names) == 1 else DEFAULT_SCHEDULER_NAME)
    lease = LeaseSettings(
        leader_elect_resource_namespace,
        lock,
        leader_elect_lease_duration,
        leader_elect_renew_deadline,
        leader_elect_retry_period,
    )
    settings = Settings(
        scheduler_names=names,
        schedule_period=schedule_period,
        default_queue=default_queue,
        lease=lease if leader_elect else None,
        qps=kube_api_qps,
        burst=kube_api_burst,
        bind_workers=bind_workers,
        percentage_nodes=percentage_nodes_to_find,
        minimum_nodes=minimum_feasible_nodes,
        metrics_address=listen_address if enable_metrics else "",
        health_address=healthz_address if enable_healthz else "",
    )

    async def serve() -> int:
        cache = ClusterCache(names, default_queue=default_queue, node_selector=node_selector)
        credentials = Credentials(kubeconfig=kubeconfig, master=master)
        return await Daemon(settings, configuration, cache, credentials).run()

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(serve())
    except (CredentialsError, OSError) as error:
        click.echo(f"volcano-py scheduler: {error}", err=True)
        code = FAILED
    sys.exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: watches and bindings cost about half as much on it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
