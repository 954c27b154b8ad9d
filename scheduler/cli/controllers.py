"""``volcano-py controllers``: the controllers on a real cluster, with Volcano's flags."""

from collections.abc import Sequence

import click

from scheduler.api.names import DEFAULT_SCHEDULER_NAME, SYSTEM_NAMESPACE
from scheduler.cli.flags import without_effect
from scheduler.cli.role_flags import RoleFlags, role_flags, serve

LOCK = "volcano-py-controllers"


@click.command("controllers", context_settings={"max_content_width": 120, "show_default": True})
@click.option(
    "--controllers",
    "selection",
    default="*",
    help="Comma-separated: * for all, NAME for one, -NAME to exclude one.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=(DEFAULT_SCHEDULER_NAME,),
    help="schedulerName of Pods that get PodGroups. Repeatable.",
)
@click.option("--worker-threads", "writes", type=click.IntRange(1, 4096), default=64, help="Writes in flight.")
@click.option(
    "--configmap-namespace",
    default=SYSTEM_NAMESPACE,
    envvar="KUBE_POD_NAMESPACE",
    help="Namespace of the ConfigMap with the configuration of the controllers.",
)
@click.option(
    "--release-name",
    default=DEFAULT_SCHEDULER_NAME,
    envvar="RELEASE_NAME",
    help="Name of the release; the ConfigMap is <release-name>-controller-configmap.",
)
@click.option(
    "--rank-table-dir",
    "files",
    default="",
    metavar="DIR",
    help="Directory in which Pods with a volume called ranktable find their rank table, in NAMESPACE.JOB/hccl.json.",
)
@without_effect(
    "--feature-gates",
    "--inherit-owner-annotations",
    "--max-requeue-num",
    "--worker-threads-for-cronjob",
    "--worker-threads-for-gc",
    "--worker-threads-for-podgroup",
    "--worker-threads-for-queue",
)
@role_flags(lease_name=LOCK, metrics=":8081")
def controllers_command(
    role: RoleFlags,
    selection: str,
    scheduler_names: Sequence[str],
    writes: int,
    configmap_namespace: str,
    release_name: str,
    files: str,
) -> None:
    """Run the controllers: vcjobs, AscendJobs, CronJobs, JobFlows, PodGroups of bare Pods, Queues, Commands,
    HyperNodes, rank tables, clean-up.

    Exit codes: 0 stopped, 1 leadership lost or API server not reachable, 2 bad flags.
    """
    from scheduler.cluster.kube.operator.role import HEAD_START, ControllersSettings, Operator
    from scheduler.controllers.catalogue import SelectionError, configuration_name, make_controllers
    from scheduler.controllers.controller import Controller
    from scheduler.controllers.store import Store

    role.configure_logs()
    names = tuple(dict.fromkeys(scheduler_names))
    configuration = (configmap_namespace, configuration_name(release_name))

    def make(store: Store) -> list[Controller]:
        return make_controllers(store, names, selection.split(","), configuration, head_start=HEAD_START)

    try:
        make(Store())
    except SelectionError as error:
        raise click.UsageError(f"--controllers: {error}") from None
    settings = ControllersSettings(
        process=role.process_settings(LOCK), writes=writes, configuration=configuration, files=files
    )

    async def main() -> int:
        return await Operator(settings, make, role.credentials()).run()

    serve("controllers", main)
