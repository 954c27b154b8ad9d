"""``volcano-py scheduler``: the scheduler on a real cluster, with Volcano's flags.

Only this module reads the flags. The modules that use the values document them.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER_NAME, SIGNING_KEY_SECRET
from scheduler.cli.flags import (
    ADDRESS,
    DURATION,
    KEY_VALUE,
    QUANTITY,
    boolean,
    feature_gates,
    options_as,
    without_effect,
)
from scheduler.cli.plugins import plugins_option
from scheduler.cli.role_flags import BAD_CONFIGURATION, RoleFlags, role_flags, serve
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.cluster.kube.process.reload import ConfigurationFile
    from scheduler.cluster.kube.scheduler.settings import DaemonSettings
    from scheduler.cluster.kube.scheduler.visibility.role import VisibilitySettings
    from scheduler.cluster.kube.watch.lists_ahead import ListsAhead
    from scheduler.framework.session import Session
    from scheduler.observability.overview import Overview

SERVICE = "volcano-py-scheduler"
VISIBILITY_SECRET = "volcano-py-scheduler-certificate"


_OPTIONS: Final = (
    click.option("--scheduler-conf", metavar="FILE", default="", show_default="built in", help="Configuration file."),
    click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=(DEFAULT_SCHEDULER_NAME,),
        help="schedulerName of Pods to schedule. Repeatable.",
    ),
    click.option("--schedule-period", type=DURATION, default="1s", help="Longest pause between two cycles."),
    click.option("--default-queue", default=DEFAULT_QUEUE, help="Queue of PodGroups without a queue."),
    click.option(
        "--node-selector",
        "node_selector",
        type=KEY_VALUE,
        multiple=True,
        help="key:value; schedule only on nodes with one of these labels. Repeatable.",
    ),
    click.option(
        "--percentage-nodes-to-find",
        type=click.IntRange(0, 100),
        default=100,
        help="Percentage of nodes to find before scoring; 0: smaller in larger clusters.",
    ),
    click.option(
        "--minimum-feasible-nodes",
        type=click.IntRange(1),
        default=100,
        help="Least number of nodes to find before scoring.",
    ),
    click.option(
        "--scheduler-sharding-mode",
        "sharding_mode",
        type=click.Choice(("none", "hard", "soft")),
        default="none",
        help="hard: use only the nodes and queues of a NodeShard, beside other schedulers; see docs/scaling.md.",
    ),
    click.option(
        "--scheduler-sharding-name", "sharding_name", metavar="NAME", default="volcano", help="Name of the NodeShard."
    ),
    boolean("--csi-storage", default=True, help="Watch the free capacity of CSI drivers."),
    click.option(
        "--bind-workers", type=click.IntRange(1, 4096), default=64, help="Bindings in flight, and evictions in flight."
    ),
    click.option(
        "--signing-key-secret",
        metavar="[NAMESPACE/]NAME",
        default=SIGNING_KEY_SECRET,
        help="Secret with the key that signs decisions; by default in the namespace of the Lease.",
    ),
    click.option(
        "--record",
        metavar="DIR",
        default="",
        show_default="none",
        help="Directory in which to record all sessions, for replay.",
    ),
    click.option(
        "--record-limit", type=QUANTITY, default="1Gi", help="Space for recordings; the oldest are removed first."
    ),
    click.option(
        "--visibility-address",
        type=ADDRESS,
        default=None,
        show_default="none",
        help="Address at which to answer tenants over TLS, for an APIService; see docs/visibility.md.",
    ),
    click.option(
        "--visibility-service",
        metavar="[NAMESPACE/]NAME",
        default=SERVICE,
        help="Service through which API servers reach that address; by default in the namespace of the Lease.",
    ),
    click.option(
        "--visibility-certificate-secret",
        metavar="NAME",
        default=VISIBILITY_SECRET,
        help="Secret of the certificate, in the namespace of the Service.",
    ),
    click.option(
        "--visibility-tls-cert-file",
        metavar="FILE",
        default="",
        show_default="created",
        help="Certificate chain to serve at that address.",
    ),
    click.option(
        "--visibility-tls-private-key-file",
        metavar="FILE",
        default="",
        show_default="created",
        help="Private key of the certificate.",
    ),
    click.option(
        "--visibility-ca-cert-file",
        metavar="FILE",
        default="",
        show_default="none",
        help="CA that API servers trust; with --visibility-tls-cert-file.",
    ),
    boolean("--visibility-page", default=False, help="Serve a web page at that address as well."),
    feature_gates,
    plugins_option,
    without_effect(
        "--cache-dump-dir",
        "--cache-dumper",
        "--disable-default-scheduler-config",
        "--gate-removal-worker-num",
        "--ignored-provisioners",
        "--minimum-percentage-nodes-to-find",
        "--node-worker-threads",
        "--priority-class",
        "--resource-sync-timeout",
        "--resync-period",
    ),
)


@dataclass(frozen=True, slots=True)
class SchedulerFlags:
    """The values of the flags. Durations are in seconds."""

    load: Callable[[], None]
    """Loads all plugins."""
    scheduler_conf: str
    scheduler_names: Sequence[str]
    schedule_period: float
    default_queue: str
    node_selector: Sequence[tuple[str, str]]
    percentage_nodes_to_find: int
    minimum_feasible_nodes: int
    sharding_mode: str
    sharding_name: str
    csi_storage: bool
    features: frozenset[str]
    bind_workers: int
    signing_key_secret: str
    visibility_address: str | None
    visibility_service: str
    visibility_certificate_secret: str
    visibility_tls_cert_file: str
    visibility_tls_private_key_file: str
    visibility_ca_cert_file: str
    visibility_page: bool
    record: str
    record_limit: int


@click.command("scheduler", context_settings={"max_content_width": 120, "show_default": True})
@options_as("flags", SchedulerFlags, *_OPTIONS)
@role_flags(lease_name="the scheduler's name, or volcano-py if there are several", metrics=":8080")
def scheduler_command(role: RoleFlags, flags: SchedulerFlags) -> None:
    """Schedule Pods of a cluster, as a second scheduler next to kube-scheduler.

    Exit codes: 0 stopped, 1 leadership lost or API server not reachable, 2 bad configuration.
    """
    role.configure_logs()
    serve("scheduler", _Start(role, flags).main)


class _Start:
    """The steps from the flags to a running scheduler."""

    def __init__(self, role: RoleFlags, flags: SchedulerFlags) -> None:
        """Raises click.UsageError for flags that exclude each other."""
        self._role, self._flags = role, flags
        self._names = tuple(dict.fromkeys(flags.scheduler_names))
        self._process = role.process_settings(self._names[0] if len(self._names) == 1 else DEFAULT_SCHEDULER_NAME)
        self._whole_cluster_lease = self._process.lease
        self._shard = flags.sharding_name if flags.sharding_mode == "hard" else ""
        if flags.sharding_mode == "soft":
            raise click.UsageError(
                "--scheduler-sharding-mode soft is not supported: two schedulers could hand out the same chips; use "
                "hard"
            )
        if self._shard and flags.record:
            raise click.UsageError("--record does not work with --scheduler-sharding-mode hard")
        lease = self._process.lease
        if self._shard and lease is not None:
            self._process = replace(self._process, lease=replace(lease, name=f"{lease.name}-{self._shard}"))
        if flags.visibility_page and not flags.visibility_address:
            raise click.UsageError("--visibility-page needs --visibility-address")
        files = flags.visibility_tls_cert_file, flags.visibility_tls_private_key_file
        if any(files) != all(files) or (flags.visibility_ca_cert_file and not any(files)):
            raise click.UsageError(
                "--visibility-tls-cert-file and --visibility-tls-private-key-file go together, and "
                "--visibility-ca-cert-file with them"
            )

    async def main(self) -> int:
        """Requests the lists, prepares meanwhile, and schedules. Returns the exit code."""
        from scheduler.cluster.kube.process.lease import free_version
        from scheduler.cluster.kube.transport.client import ApiClient
        from scheduler.cluster.kube.transport.credentials import CredentialsError
        from scheduler.cluster.kube.transport.sources import sources
        from scheduler.cluster.kube.watch.lists_ahead import ListsAhead
        from scheduler.observability.role_metrics import RoleMetrics

        process = self._process
        client = ApiClient(self._role.credentials(), RoleMetrics(), qps=process.qps, burst=process.burst)
        try:
            await client.start()
        except CredentialsError:
            if await asyncio.to_thread(self._prepare) is None:
                return BAD_CONFIGURATION
            raise
        try:
            free_lease = await free_version(client, process.lease)
            watched = sources(csi_storage=self._flags.csi_storage, shards=bool(self._shard))
            async with aclosing(ListsAhead(client, watched, free_lease)) as ahead:
                configuration = await asyncio.to_thread(self._prepare)
                return BAD_CONFIGURATION if configuration is None else await self._schedule(configuration, ahead)
        finally:
            await client.close()

    def _prepare(self) -> "ConfigurationFile | None":
        """Imports all that a scheduler needs, and reads the configuration. Returns None, after printing why, if the
        configuration is invalid."""
        self._flags.load()
        import_module("scheduler.cache")
        import_module("scheduler.cluster.kube.scheduler.daemon")
        if self._process.serves:
            import_module("scheduler.observability.server")
        from scheduler.cluster.kube.process.reload import ConfigurationFile
        from scheduler.framework.configuration_file import ConfigurationError

        try:
            return ConfigurationFile(self._flags.scheduler_conf, self._flags.features)
        except ConfigurationError as error:
            echo(f"volcano-py scheduler: {error}", err=True)
            return None

    async def _schedule(self, configuration: "ConfigurationFile", ahead: "ListsAhead") -> int:
        from scheduler.cache import ClusterCache
        from scheduler.cluster.kube.scheduler.daemon import Daemon

        flags, settings, credentials = self._flags, self._settings(), self._role.credentials()
        of_cache: dict[str, Any] = {"default_queue": flags.default_queue, "node_selector": flags.node_selector}
        if not flags.record:
            cache = ClusterCache(self._names, **of_cache, shard=self._shard)
            return await Daemon(settings, configuration, cache, credentials, ahead=ahead).run()
        from scheduler.record.cache import RecordedCache
        from scheduler.record.journal import Journal

        journal = Journal(Path(flags.record), flags.record_limit, f"{time.time_ns()}", _log_end_of_recording)
        recorded = RecordedCache(self._names, journal, **of_cache)
        return await Daemon(settings, configuration, recorded, credentials, sessions=recorded, ahead=ahead).run()

    def _settings(self) -> "DaemonSettings":
        from scheduler.cluster.kube.scheduler.settings import DaemonSettings

        flags = self._flags
        secret_namespace, _, secret_name = flags.signing_key_secret.rpartition("/")
        return DaemonSettings(
            scheduler_names=self._names,
            process=self._process,
            schedule_period=flags.schedule_period,
            default_queue=flags.default_queue,
            bind_workers=flags.bind_workers,
            percentage_nodes=flags.percentage_nodes_to_find,
            minimum_nodes=flags.minimum_feasible_nodes,
            csi_storage=flags.csi_storage,
            signing_key_namespace=secret_namespace or self._role.leader_elect_resource_namespace,
            signing_key_secret=secret_name,
            shard=self._shard,
            whole_cluster_lease=self._whole_cluster_lease,
            visibility=self._visibility(flags.visibility_address) if flags.visibility_address else None,
        )

    def _visibility(self, address: str) -> "VisibilitySettings":
        """The settings of the answers to tenants."""
        from scheduler.cli.visibility_worker import COMMAND
        from scheduler.cluster.kube.scheduler.visibility.answers import Worker
        from scheduler.cluster.kube.scheduler.visibility.role import VisibilitySettings
        from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles, CertificateSecret
        from scheduler.observability.addresses import parse_address

        flags, role = self._flags, self._role
        namespace, _, service = flags.visibility_service.rpartition("/")
        namespace = namespace or role.leader_elect_resource_namespace
        host, port = parse_address(address)
        certificates: CertificateFiles | CertificateSecret
        if flags.visibility_tls_cert_file:
            certificates = CertificateFiles(
                flags.visibility_tls_cert_file, flags.visibility_tls_private_key_file, flags.visibility_ca_cert_file
            )
        else:
            hosts = tuple(f"{service}.{namespace}.{end}" for end in ("svc", "svc.cluster.local"))
            certificates = CertificateSecret(flags.visibility_certificate_secret, hosts)
        question = {
            "kubeconfig": role.kubeconfig,
            "master": role.master,
            "configuration": flags.scheduler_conf,
            "scheduler_names": self._names,
            "plugins_dirs": click.get_current_context().params.get("plugins_dirs", ()),
        }
        return VisibilitySettings(
            host,
            port,
            namespace,
            certificates,
            Worker(COMMAND, question),
            _overview_taker() if flags.visibility_page else None,
        )


def _log_end_of_recording(why: str) -> None:
    import structlog

    structlog.get_logger(__name__).error("the recording has ended", why=why)


def _overview_taker() -> "Callable[[Session], Overview]":
    from scheduler.explain.overview import overview
    from scheduler.observability.cluster_figures import CardDevices

    return partial(overview, cards=CardDevices())
