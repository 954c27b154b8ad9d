"""``volcano-py explain``: why a Pod, PodGroup or job waits, and the smallest change that lets it run."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from scheduler.cli.cluster_source import ClusterSource, cluster_source_options
from scheduler.cli.completion import names_of
from scheduler.cli.errors import FORBIDDEN, CommandError
from scheduler.cli.layout import hanging
from scheduler.cli.output import JSON, TABLE, YAML, output_option, print_object, terminal_width
from scheduler.cli.text import echo

_KINDS = {"pod": "POD", "podgroup": "POD_GROUP", "job": "VCJOB"}


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return names_of(_KINDS.get(str(ctx.params.get("kind")), "POD"))(ctx, param, incomplete)


@click.command("explain")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("name", shell_complete=_names)
@click.option("--changes/--no-changes", "search", default=True, help="Whether to search for changes that would help.")
@output_option(TABLE, JSON, YAML)
@cluster_source_options(namespaced=True)
def explain_command(source: ClusterSource, kind: str, name: str, search: bool, output: str) -> None:
    """Explain why a pod, podgroup or job waits, or why a pod has its node.

    Without the right to read nodes, the scheduler is asked instead.

    \b
    volcano-py explain job train -n research
    volcano-py explain pod train-worker-0 -f cluster.yaml -o json
    """
    try:
        _explain(source, kind, name, search, output)
    except CommandError as error:
        if error.status != FORBIDDEN or source.paths:
            raise
        from scheduler.cli.visibility import explanation

        _show_answer(explanation(source.connection, kind, name, error), output)


def _explain(source: ClusterSource, kind: str, name: str, search: bool, output: str) -> None:
    with source.simulated("scheduler.cli.explain_text") as (namespace, simulation):
        from scheduler.cli.explain_text import lines
        from scheduler.explain import NotFoundError, explain
        from scheduler.explain.document import explanation_document

        try:
            found = explain(simulation, kind, namespace, name, search=search)
        except NotFoundError as error:
            raise CommandError(str(error)) from None
    for problem in found.problems:
        echo(f"warning: scheduler configuration: {problem}", err=True)
    for failed in found.remedy_errors:
        echo(f"note: {failed}; its changes are not tried", err=True)
    if output == TABLE:
        for line in lines(found):
            echo(line)
    else:
        print_object(explanation_document(found), output)


def _show_answer(answer: dict[str, Any], output: str) -> None:
    """Prints what the scheduler answers to a user who may not read the cluster."""
    echo("note: the scheduler answers this: without the names of others, and without changes that would help", err=True)
    if output == TABLE:
        for line in answer.get("lines", ()):
            for part in hanging(str(line), terminal_width(), indent=4):
                echo(part)
    else:
        print_object(answer.get("explanation", {}), output)
