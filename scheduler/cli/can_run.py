"""``volcano-py can-run``: whether jobs would run if they were submitted now, and what would hold them."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.cluster_source import ClusterSource, NamedObject, cluster_source_options
from scheduler.cli.errors import BAD_REQUEST, FORBIDDEN, CommandError
from scheduler.cli.input_warnings import print_section
from scheduler.cli.layout import hanging
from scheduler.cli.output import JSON, TABLE, YAML, output_option, print_object, terminal_width
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.cluster.manifests import Manifest

EXIT_CODES: Final = {"runs": 0, "waits": 3, "never": 4}
"""The verdicts, the best first, and the exit codes. 1 and 2 are those of every command."""


@click.command("can-run")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="File, directory or - with the objects to submit. Repeatable.",
)
@output_option(TABLE, JSON, YAML)
@cluster_source_options("--cluster-from", namespaced=True)
def can_run_command(source: ClusterSource, files: tuple[str, ...], output: str) -> None:
    """Answer whether jobs would run if they were submitted now.

    FILE has vcjobs, AscendJobs, JobFlows, PodGroups with their Pods, Pods, Deployments, ReplicaSets, StatefulSets, Jobs
    or CronJobs, and what belongs to them. The answer says whether each is admitted to its queue now, whether it is
    within its quota, for how many of its Pods there is a node, and whether it would run on an empty cluster. Nothing is
    written. The scheduler answers if it serves users (scheduler.visibility of the chart); otherwise, and with the flags
    that name a cluster, a configuration or a scheduler, the command reads the cluster and answers itself.

    Exit codes: 0 all run now, 3 one waits until other jobs end, 4 one never runs as things are, 1 failed, 2 bad command
    line.

    \b
    volcano-py can-run -f job.yaml
    volcano-py can-run -f job.yaml --cluster-from cluster.yaml -o json
    """
    from scheduler.cluster.manifests import ManifestError, read_manifests

    if "-" in files and "-" in source.paths:
        raise click.UsageError("standard input can be read once: for -f or for --cluster-from")
    try:
        manifests = read_manifests(files, generated_names=True)
    except ManifestError as error:
        raise CommandError(str(error)) from None
    verdict = _verdict(source, manifests, output)
    code = EXIT_CODES.get(verdict, 1)
    if code:
        sys.exit(code)


def _verdict(source: ClusterSource, manifests: "Sequence[Manifest]", output: str) -> str:
    """Prints the answers, and returns the worst verdict. Raises CommandError."""
    from scheduler.cli.visibility import UnansweredError, run_review

    unanswered: UnansweredError | None = None
    if source.is_default:
        try:
            return _show_answer(run_review(source.connection, manifests), output)
        except UnansweredError as error:
            if error.status == BAD_REQUEST:
                raise CommandError(str(error), error.status) from None
            unanswered = error
    try:
        return _answer(source, manifests, output)
    except CommandError as error:
        if error.status != FORBIDDEN or unanswered is None:
            raise
        raise unanswered.beside(error) from None


def _answer(source: ClusterSource, manifests: "Sequence[Manifest]", output: str) -> str:
    """Prints the answers, and returns the worst verdict."""
    about = named_objects(manifests)
    with source.simulated("scheduler.cli.can_run_text", about, checked=False) as (namespace, simulation):
        from scheduler.cli.can_run_text import lines
        from scheduler.cluster.manifests import ManifestError
        from scheduler.cluster.mistakes import submission_warnings
        from scheduler.explain.can_run import can_run
        from scheduler.explain.document import run_document
        from scheduler.explain.submitted import submitted

        try:
            beside, jobs = submitted(manifests, namespace)
            names, configuration = simulation.scheduler_names, simulation.configuration
            for warning in submission_warnings(manifests, simulation.cluster, names, configuration):
                source.log.warn(warning)
            answers = can_run(simulation, beside, jobs)
        except ManifestError as error:
            raise CommandError(str(error)) from None
    own = [(job.kind, job.namespace, job.name) for job in jobs]
    warnings = source.field_warnings(simulation, own)
    document = run_document(answers)
    if output == TABLE:
        for line in lines(answers):
            echo(line)
        print_section(source.log.unnamed(warnings))
    else:
        print_object({**document, **source.log.document(warnings)}, output)
    return str(document["verdict"])


def named_objects(manifests: "Sequence[Manifest]") -> list[NamedObject]:
    """The objects that may exist in the cluster."""
    from scheduler.api.explained_kinds import explained_kind

    metadata = ((explained_kind(each.raw["kind"]), each.raw["metadata"]) for each in manifests)
    return [
        NamedObject(word, meta["name"], str(meta.get("namespace") or ""))
        for word, meta in metadata
        if word is not None and meta.get("name")
    ]


def _show_answer(answer: dict[str, Any], output: str) -> str:
    """Prints what the scheduler answers, and returns the worst verdict."""
    echo("note: the scheduler answers this: without the names of others", err=True)
    warnings = answer.get("warnings")
    for text in warnings if isinstance(warnings, list) else ():
        echo(f"warning: {text}", err=True)
    if output == TABLE:
        for line in answer.get("lines", ()):
            for part in hanging(str(line), terminal_width(), indent=4):
                echo(part)
    else:
        print_object({key: value for key, value in answer.items() if key != "lines"}, output)
    return str(answer.get("verdict"))
