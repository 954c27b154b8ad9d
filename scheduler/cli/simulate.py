"""``volcano-py simulate``: manifests in, what the scheduler would do out."""

import json
import sys
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console

from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.cli.simulate_table import print_report
from scheduler.cluster.memory import Kubelet, ManifestError, read_manifests, simulate
from scheduler.framework.configuration import DEFAULT_CONFIGURATION, ConfigurationError, parse_configuration

BAD_INPUT = 2


@click.command("simulate")
@click.option("-f", "--filename", "paths", multiple=True, required=True, help="File, directory or - (repeatable).")
@click.option("--scheduler-conf", "conf", help="Scheduler configuration, as volcano-scheduler.conf.")
@click.option("--scheduler-name", "names", multiple=True, help="schedulerName to answer to (repeatable).")
@click.option("--cycles", type=click.IntRange(min=1), help="Exactly so many cycles (default: until nothing changes).")
@click.option("--kubelet", type=click.Choice(["run", "none"]), default="run", show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def simulate_command(
    paths: tuple[str, ...], conf: str | None, names: tuple[str, ...], cycles: int | None, kubelet: str, output: str
) -> None:
    """Run the scheduler over a cluster in memory that is read from manifests."""
    import scheduler.actions
    import scheduler.plugins  # noqa: F401

    try:
        text, source = (DEFAULT_CONFIGURATION, "built-in configuration") if conf is None else _read(conf)
        configuration = parse_configuration(text, source)
        manifests = read_manifests(paths)
        for manifest in manifests:
            if manifest.kind is None:
                click.echo(
                    f"warning: {manifest.where}: unknown kind {manifest.raw['kind']} is carried through", err=True
                )
        for warning in configuration.warnings:
            click.echo(f"warning: {warning}", err=True)
        report = simulate(
            manifests, configuration, names or (DEFAULT_SCHEDULER_NAME,), cycles=cycles, kubelet=Kubelet(kubelet)
        )
    except (ManifestError, ConfigurationError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(BAD_INPUT)
    for problem in report.last.session.problems if report.last else ():
        click.echo(f"warning: {source}: {problem}", err=True)
    if output == "table":
        print_report(report, Console(soft_wrap=False))
        return
    listing: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": report.cluster.objects()}
    if output == "json":
        json.dump(listing, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        yaml.dump(listing, sys.stdout, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)


def _read(path: str) -> tuple[str, str]:
    try:
        return Path(path).read_text(encoding="utf-8"), path
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
