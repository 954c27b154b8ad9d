"""``volcano-py webhooks``: the admission server on a real cluster, with Volcano's flags."""

import sys
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import click

from scheduler.api.names import DEFAULT_SCHEDULER_NAME, SCHEDULING_GATES_QUEUE_ADMISSION, SYSTEM_NAMESPACE
from scheduler.cli.flags import ADDRESS, DURATION, boolean, feature_gates, without_effect
from scheduler.cli.role_flags import (
    BAD_CONFIGURATION,
    kubeconfig_option,
    log_format_option,
    master_option,
    serve,
    verbosity_option,
)
from scheduler.cli.text import echo
from scheduler.webhooks.contract import CardOverGrant
from scheduler.webhooks.fields import dns_subdomain
from scheduler.webhooks.routes import BINARY_DEFAULT, Route, routes

SECRET = "volcano-py-admission-certificate"


class Paths(click.ParamType[tuple[Route, ...]]):
    """Paths of webhooks, separated by commas."""

    name = "paths"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Route, ...]:
        if isinstance(value, tuple):
            return value
        known = routes()
        wanted = dict.fromkeys(path.strip() for path in str(value).split(",") if path.strip())
        for path in wanted:
            if path not in known:
                self.fail(f"there is no admission {path!r}; there are {', '.join(known)}", param, ctx)
        return tuple(known[path] for path in wanted)


@click.command("webhooks", context_settings={"max_content_width": 120, "show_default": True})
@click.option(
    "--enabled-admission", "served", type=Paths(), default=",".join(BINARY_DEFAULT), help="Paths that are served."
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=(DEFAULT_SCHEDULER_NAME,),
    help="schedulerName of Pods to validate; the first is the default of vcjobs. Repeatable.",
)
@click.option("--admission-conf", metavar="FILE", default="", help="Resource groups of Pods; reloaded on change.")
@click.option("--listen-address", "host", default="", show_default="all", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8443, help="Port to listen on; 0 for a free one.")
@click.option("--webhook-namespace", "namespace", default=SYSTEM_NAMESPACE, help="Namespace of the webhooks.")
@click.option(
    "--webhook-service-name", "service", default="", help="Service through which API servers reach the webhooks."
)
@click.option(
    "--webhook-url",
    "url",
    default="",
    help="URL at which API servers reach the webhooks; missing webhook configurations are created.",
)
@click.option("--tls-cert-file", metavar="FILE", default="", show_default="created", help="Certificate chain to serve.")
@click.option(
    "--tls-private-key-file", metavar="FILE", default="", show_default="created", help="Private key of the certificate."
)
@click.option("--ca-cert-file", metavar="FILE", default="", help="CA that API servers trust; with --tls-cert-file.")
@click.option("--certificate-secret", default=SECRET, help="Secret of the created certificate.")
@boolean("--enable-root-queue-protection", default=True, help="Refuse changes to the amounts of the root queue.")
@boolean("--enable-queue-allocated-pods-check", default=False, help="Refuse to delete queues with allocated Pods.")
@boolean("--enable-dry-run-quota", default=True, help="Answer dry runs of vcjobs with the quota of their queue.")
@click.option(
    "--card-over-grant",
    type=click.Choice([policy.value for policy in CardOverGrant]),
    default=CardOverGrant.OFF.value,
    help="Card quotas that add up to more cards than nodes have: accept, warn of, or refuse them.",
)
@click.option("--max-queue-depth", type=click.IntRange(1), default=5, help="Levels of queues below the root.")
@click.option(
    "--graceful-shutdown-time",
    "graceful",
    type=DURATION,
    default="30s",
    help="Time to finish requests in flight when stopping.",
)
@kubeconfig_option
@master_option
@click.option("--kube-api-qps", "qps", type=float, default=50, help="Requests per second; 0 for no limit.")
@click.option("--kube-api-burst", "burst", type=click.IntRange(1), default=100, help="Burst of requests.")
@boolean("--enable-healthz", default=True, help="Serve /healthz, /readyz and /metrics.")
@click.option("--healthz-address", type=ADDRESS, default=":11251", help="Address of /healthz, /readyz and /metrics.")
@verbosity_option
@log_format_option
@feature_gates
@without_effect("--logtostderr")
def webhooks_command(
    served: tuple[Route, ...],
    scheduler_names: Sequence[str],
    admission_conf: str,
    host: str,
    port: int,
    namespace: str,
    service: str,
    url: str,
    tls_cert_file: str,
    tls_private_key_file: str,
    ca_cert_file: str,
    certificate_secret: str,
    enable_root_queue_protection: bool,
    enable_queue_allocated_pods_check: bool,
    enable_dry_run_quota: bool,
    card_over_grant: str,
    max_queue_depth: int,
    graceful: float,
    kubeconfig: str,
    master: str,
    qps: float,
    burst: int,
    enable_healthz: bool,
    healthz_address: str,
    verbosity: int,
    log_format: str,
    features: frozenset[str],
) -> None:
    """Serve admission webhooks: set defaults and refuse invalid objects.

    Without --tls-cert-file a certificate is created, kept in a Secret, renewed, and its CA is written to the webhook
    configurations.

    Exit codes: 0 stopped, 1 API server not reachable or address not available, 2 bad flags or configuration.
    """
    from scheduler.cluster.kube.admission.role import AdmissionProcess, RoleSettings
    from scheduler.cluster.kube.process.reload import ReloadedFile
    from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles, CertificateSecret
    from scheduler.cluster.kube.transport.credentials import Credentials
    from scheduler.controllers.job.plugins import PLUGIN_NAMES
    from scheduler.framework.configuration_file import ConfigurationError
    from scheduler.observability import logs
    from scheduler.webhooks.contract import WebhookSettings
    from scheduler.webhooks.resource_groups import parse_resource_groups

    logs.configure(verbosity, log_format)
    if not service and not url:
        raise click.UsageError("one of --webhook-service-name and --webhook-url has to be given")
    if bool(tls_cert_file) != bool(tls_private_key_file) or (ca_cert_file and not tls_cert_file):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together, and --ca-cert-file with them")
    if dns_subdomain(namespace) or (service and dns_subdomain(service)):
        raise click.UsageError("--webhook-namespace and --webhook-service-name have to be names of Kubernetes objects")
    hosts: tuple[str, ...] = (f"{service}.{namespace}", f"{service}.{namespace}.svc") if service else ()
    if url:
        hosts = (*hosts, _host(url))
    try:
        groups = ReloadedFile(admission_conf, parse_resource_groups)
    except ConfigurationError as error:
        echo(f"volcano-py webhooks: {error}", err=True)
        sys.exit(BAD_CONFIGURATION)
    certificates: CertificateFiles | CertificateSecret
    if tls_cert_file:
        certificates = CertificateFiles(tls_cert_file, tls_private_key_file, ca_cert_file)
    else:
        certificates = CertificateSecret(certificate_secret, hosts)
    rules = WebhookSettings(
        scheduler_names=tuple(dict.fromkeys(scheduler_names)),
        job_plugins=PLUGIN_NAMES,
        queue_allocated_pods_check=enable_queue_allocated_pods_check,
        root_queue_protection=enable_root_queue_protection,
        max_queue_depth=max_queue_depth,
        card_over_grant=CardOverGrant(card_over_grant),
        dry_run_quota=enable_dry_run_quota,
        queue_gates=SCHEDULING_GATES_QUEUE_ADMISSION in features,
    )
    settings = RoleSettings(
        routes=served,
        certificates=certificates,
        namespace=namespace,
        url=url.rstrip("/"),
        host=host,
        port=port,
        health_address=healthz_address if enable_healthz else "",
        qps=qps,
        burst=burst,
        graceful_shutdown=graceful,
    )

    async def main() -> int:
        return await AdmissionProcess(settings, rules, groups, Credentials(kubeconfig=kubeconfig, master=master)).run()

    serve("webhooks", main)


def _host(url: str) -> str:
    """The host of a URL. Raises click.UsageError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme == "https" else None
    except ValueError:
        host = None
    if not host or not host.isascii():
        raise click.UsageError(f"--webhook-url: {url!r} is not a URL like https://host:port")
    try:
        return str(ip_address(host))
    except ValueError:
        return host
