"""``volcano-py explain``: why a Pod, PodGroup or job waits, and the smallest change that lets it run."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from scheduler.api.names import DEFAULT_NAMESPACE, DEFAULT_SCHEDULER_NAME
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.output import JSON, TABLE, YAML, output_option, print_object
from scheduler.cli.plugins import with_plugins
from scheduler.cli.process import keep
from scheduler.cli.simulation import without_garbage_collection
from scheduler.cli.target import connection_options
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.cluster.memory import Simulation
    from scheduler.framework.external_calls import ExternalCalls

_KINDS = {"pod": "POD", "podgroup": "POD_GROUP", "job": "VCJOB"}


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return names_of(_KINDS.get(str(ctx.params.get("kind")), "POD"))(ctx, param, incomplete)


@click.command("explain")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("name", shell_complete=_names)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="File, directory or - with manifests, instead of the cluster. Repeatable.",
)
@click.option(
    "--scheduler-conf",
    "conf",
    metavar="FILE",
    type=click.Path(),
    help="Scheduler configuration; by default that of the scheduler in the cluster, else built in.",
)
@click.option("--scheduler-name", "names", multiple=True, help="schedulerName of Pods to schedule (repeatable).")
@click.option("--changes/--no-changes", "search", default=True, help="Whether to search for changes that would help.")
@with_plugins
@output_option(TABLE, JSON, YAML)
@connection_options(namespaced=True)
def explain_command(
    connection: Connection, kind: str, name: str, paths: tuple[str, ...], conf: str | None, names: tuple[str, ...],
    search: bool, output: str,
) -> None:  # fmt: skip
    """Explain why a pod, podgroup or job waits, or why a pod has its node.

    \b
    volcano-py explain job train -n research
    volcano-py explain pod train-worker-0 -f cluster.yaml -o json
    """
    from scheduler.cli.explain_text import lines
    from scheduler.cluster.external_calls import HttpCalls
    from scheduler.explain import NotFoundError, explain
    from scheduler.explain.document import explanation_document
    from scheduler.framework.failures import PluginError

    with without_garbage_collection(), closing(HttpCalls()) as external_calls:
        try:
            namespace, simulation = cluster_in_memory(connection, paths, conf, names, external_calls)
            keep(simulation)
            found = explain(simulation, kind, namespace, name, search=search)
        except NotFoundError as error:
            raise CommandError(str(error)) from None
        except RecursionError:
            raise CommandError("an object of the cluster is nested too deeply to be simulated") from None
        except PluginError as error:
            raise CommandError(str(error)) from error
    for failed in found.remedy_errors:
        echo(f"note: {failed}; its changes are not tried", err=True)
    if output == TABLE:
        for line in lines(found):
            echo(line)
    else:
        print_object(explanation_document(found), output)


def cluster_in_memory(
    connection: Connection,
    paths: tuple[str, ...],
    conf: str | None,
    names: tuple[str, ...],
    external_calls: "ExternalCalls",
) -> "tuple[str, Simulation]":
    """Returns the namespace of the object and the cluster in memory. Raises CommandError."""
    from scheduler.cli.explain_live import read_cluster
    from scheduler.cli.simulation import query_usage
    from scheduler.cluster.memory import ManifestError, Simulation, read_manifests
    from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, ConfigurationError, parse_configuration

    settings: dict[str, Any] = {}
    try:
        if paths:
            namespace = connection.namespace or DEFAULT_NAMESPACE
            manifests, text, source = read_manifests(paths), DEFAULT_CONFIGURATION, "built-in configuration"
        else:
            live = read_cluster(connection, with_configuration=conf is None, with_names=not names)
            namespace, manifests, text, source = live.namespace, live.manifests, live.text, live.source
            names = names or live.scheduler_names
            settings = {"start": live.now, "lenient": True}
        if conf is not None:
            text, source = Path(conf).read_text(encoding="utf-8"), conf
        configuration = parse_configuration(text, source)
        for warning in configuration.warnings:
            echo(f"warning: {warning}", err=True)
        simulation = Simulation(
            manifests, configuration, names or (DEFAULT_SCHEDULER_NAME,), external_calls=external_calls, **settings
        )
    except (ManifestError, ConfigurationError) as error:
        raise CommandError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{conf}: {error}") from None
    for refusal in simulation.cluster.undecodable:
        echo(f"warning: {refusal}; left out", err=True)
    simulation.take_usage(query_usage(configuration.metrics, simulation.cluster.cache.node_names()))
    return namespace, simulation
