"""``volcano-py simulate``: runs the scheduler over manifests and prints the result."""

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click

from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.cli.cluster_source import query_usage
from scheduler.cli.flags import feature_gates
from scheduler.cli.output import JSON, TABLE, YAML, output_option, print_object
from scheduler.cli.plugins import with_plugins
from scheduler.cli.process import collect_garbage, keep, without_garbage_collection
from scheduler.cli.text import echo, echo_document

BAD_INPUT = 2
_EXPONENT: Final = re.compile(rb"e-?[0-9]+[],}]")
"""The exponent of a number and the character after it, in JSON without blanks."""


@click.command("simulate")
@click.option(
    "-f", "--filename", "paths", multiple=True, required=True, help="File, directory or - with manifests (repeatable)."
)
@click.option("--what-if", "changes", multiple=True, metavar="FILE", help="Manifests of a what-if change (repeatable).")
@click.option(
    "--scheduler-conf", "conf", metavar="FILE", help="Scheduler configuration in the format of volcano-scheduler.conf."
)
@click.option("--scheduler-name", "names", multiple=True, help="schedulerName of Pods to schedule (repeatable).")
@click.option(
    "-k",
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(),
    default="",
    help="Validate Pod templates with this API server.",
)
@click.option("--cycles", type=click.IntRange(min=1), help="Number of cycles (default: until nothing changes).")
@feature_gates
@with_plugins
@click.option("--kubelet", type=click.Choice(["run", "none"]), default="run", show_default=True)
@click.option("--chips", is_flag=True, help="Print the chips of nodes at the end, as node chips does.")
@output_option(TABLE, JSON, YAML)
@without_garbage_collection()
def simulate_command(
    paths: tuple[str, ...],
    changes: tuple[str, ...],
    conf: str | None,
    names: tuple[str, ...],
    kubeconfig: str,
    cycles: int | None,
    features: frozenset[str],
    kubelet: str,
    chips: bool,
    output: str,
) -> None:
    """Run the scheduler over a cluster in memory that is read from manifests.

    With --what-if, apply the changes to the result, run the scheduler again, and print the differences. The API server
    of --kubeconfig validates Pod templates of vcjobs; without it they are not validated.
    """
    from msgspec.structs import replace

    from scheduler.api.card_totals import QuotaProblem
    from scheduler.cli.input_warnings import FieldWarning, WarningLog, field_warnings, warning_lines
    from scheduler.cli.node import node_devices, print_devices
    from scheduler.cli.simulate_table import report_lines
    from scheduler.cli.simulate_templates import check_templates
    from scheduler.cli.what_if import difference_lines
    from scheduler.cluster.external_calls import HttpCalls
    from scheduler.cluster.memory import KubeletBehaviour, ManifestError, Simulation, read_manifests
    from scheduler.cluster.mistakes import manifest_warnings
    from scheduler.explain import cluster_state, compare
    from scheduler.explain.document import difference_document
    from scheduler.framework.configuration_file import (
        DEFAULT_CONFIGURATION,
        ConfigurationError,
        parse_configuration,
        read_configuration,
    )

    log = WarningLog()
    try:
        text, source = (
            (DEFAULT_CONFIGURATION, "built-in configuration")
            if conf is None
            else (read_configuration(Path(conf)), conf)
        )
        configuration = replace(parse_configuration(text, source), features=features)
        manifests, changed = read_manifests(paths), read_manifests(changes)
        check_templates([*manifests, *changed], kubeconfig)
        schedulers = names or (DEFAULT_SCHEDULER_NAME,)
        found = (
            *manifest_warnings(manifests, schedulers, configuration=configuration),
            *manifest_warnings(changed, schedulers, manifests, configuration),
        )
        for warning in (*found, *configuration.warnings):
            log.warn(warning)
        with closing(HttpCalls()) as external_calls:
            simulation = Simulation(
                manifests,
                configuration,
                schedulers,
                kubelet=KubeletBehaviour(kubelet),
                external_calls=external_calls,
            )
            keep(simulation)
            simulation.take_usage(query_usage(configuration.metrics, simulation.cluster.cache.node_names(), log))
            report = simulation.run(cycles, progress=collect_garbage)
            difference = None
            earlier: frozenset[FieldWarning] = frozenset()
            if changes:
                earlier = frozenset(field_warnings(simulation.cluster.events(), frozenset(QuotaProblem)))
                before = cluster_state(simulation)
                simulation.change(changed)
                report = simulation.run(cycles, progress=collect_garbage)
                difference = compare(before, cluster_state(simulation))
    except (ManifestError, ConfigurationError) as error:
        echo(f"error: {error}", err=True)
        sys.exit(BAD_INPUT)
    for problem in report.last.session.problems if report.last else ():
        log.warn(f"{source}: {problem}")
    reported = field_warnings(report.cluster.events(), frozenset(QuotaProblem))
    new = [each for each in reported if each not in earlier]
    if chips:
        print_devices(node_devices(report.last), output, log, new)
    elif output != TABLE:
        listing = {"apiVersion": "v1", "kind": "List", "items": report.cluster.objects()}
        document = listing if difference is None else difference_document(difference)
        _print_document({**document, **log.document(new)}, output)
    else:
        warned = warning_lines(log.unnamed(new))
        for line in report_lines(report, warned) if difference is None else difference_lines(difference, warned):
            echo(line)


def _print_document(document: dict[str, Any], output: str) -> None:
    if output == JSON:
        echo_document(_json(document) + "\n", json=True)
    else:
        print_object(document, output)


def _json(document: dict[str, Any]) -> str:
    """Returns the text of ``json.dumps`` with an indentation of one, in a twentieth of its time."""
    import json

    import msgspec

    text = msgspec.json.encode(document)
    if not text.isascii() or _EXPONENT.search(text) or b"0.0000" in text:
        text = json.dumps(document).encode()  # msgspec escapes and writes such numbers differently
    return msgspec.json.format(text, indent=1).decode()
