"""``volcano-py explain``: why a Pod, PodGroup or workload waits, and the smallest change that lets it run."""

import re
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from scheduler.api.explained_kinds import EXPLAINED, explained_kind, is_kind
from scheduler.api.messages import closest, did_you_mean
from scheduler.cli.cluster_source import ClusterSource, NamedObject, cluster_source_options
from scheduler.cli.completion import names_of
from scheduler.cli.errors import FORBIDDEN, CommandError
from scheduler.cli.input_warnings import print_section
from scheduler.cli.layout import hanging
from scheduler.cli.output import JSON, TABLE, YAML, key_in, output_option, print_object, terminal_width
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.explain import Explanation


class _KindArgument(click.ParamType[str]):
    """The kind of an object as kubectl names it, also ``KIND/NAME``; or the kind of another owner of Pods."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The kind as ``find_target`` takes it, with ``/NAME`` if there is one. Fails for a kind that owns no Pods."""
        word, slash, name = value.partition("/")
        kind = explained_kind(word)
        if kind is None:
            kind = word
            if not _OTHER_KIND.fullmatch(word) or _is_no_owner(word):
                close = _meant(word)
                meant = f"; did you mean {close!r}?" if close else ""
                kinds = ", ".join(map(repr, EXPLAINED))
                self.fail(f"{word!r} is not one of {kinds}, or the kind of another owner of Pods{meant}", param, ctx)
        return f"{kind}{slash}{name}"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(kind) for kind in EXPLAINED if kind.startswith(incomplete)]


def _meant(word: str) -> str:
    """The name of a kind that resembles a word, or ""."""
    return closest(word, [*EXPLAINED, *_ALIASES], 0.75)


def _is_no_owner(word: str) -> bool:
    """Whether a word is nearly the name of a kind, or that of a known kind that owns no Pods, such as ``queue``."""
    from scheduler.api.kinds import KINDS

    return bool(_meant(word)) or any(is_kind(word, kind.name) for kind in KINDS)


_OTHER_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(\.[a-z0-9.-]+)?")
_ALIASES: Final = tuple(name for entry in EXPLAINED.values() for name in entry.names)


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    kind = EXPLAINED.get(str(ctx.params.get("kind")))
    return names_of(*kind.constants)(ctx, param, incomplete) if kind is not None else []


@click.command("explain")
@click.argument("kind", type=_KindArgument())
@click.argument("name", required=False, shell_complete=_names)
@click.option("--changes/--no-changes", "search", default=True, help="Whether to search for changes that would help.")
@output_option(TABLE, JSON, YAML)
@cluster_source_options(namespaced=True)
def explain_command(source: ClusterSource, kind: str, name: str | None, search: bool, output: str) -> None:
    """Explain why a pod, podgroup or workload waits, or why a pod has its node.

    KIND is pod, podgroup, job (a vcjob, else a Job of Kubernetes, else an AscendJob), acjob, jobflow, cronjob,
    deployment, replicaset, statefulset, daemonset, one of kubectl's short names, or the kind of another owner of Pods,
    such as RayCluster. KIND/NAME, as in the table of `job top`, is the same as KIND NAME. Without the right to read
    nodes, the scheduler is asked instead.

    \b
    volcano-py explain job train -n research
    volcano-py explain Deployment/web
    volcano-py explain pod train-worker-0 -f cluster.yaml -o json
    """
    kind, _, given = kind.partition("/")
    if bool(given) == (name is not None):
        raise click.UsageError("a kind and one name are expected, such as 'deployment web' or 'deployment/web'")
    name = name or given
    try:
        _explain(source, kind, name, search, output)
    except CommandError as error:
        if error.status != FORBIDDEN or source.paths:
            raise
        from scheduler.cli.visibility import explanation

        _show_answer(explanation(source.connection, kind, name, error), output)


def _explain(source: ClusterSource, kind: str, name: str, search: bool, output: str) -> None:
    with source.simulated("scheduler.cli.explain_text", [NamedObject(kind, name)]) as (namespace, simulation):
        from scheduler.api.kinds import POD
        from scheduler.cli.explain_text import lines
        from scheduler.cluster.memory.index import group_of
        from scheduler.cluster.mistakes import object_warnings
        from scheduler.explain import NotFoundError, explain
        from scheduler.explain.document import explanation_document

        try:
            found = explain(simulation, kind, namespace, name, search=search)
        except NotFoundError as error:
            stored = (obj["metadata"] for each in _constants(kind) for obj in simulation.cluster.server.of(each))
            others = [str(meta["name"]) for meta in stored if meta.get("namespace") == namespace]
            raise CommandError(f"{error}{did_you_mean(name, others)}") from None
    own = _own_objects(kind, namespace, name, found)
    if not source.paths:  # of manifests, all mistakes are reported
        configuration = simulation.configuration
        for warning in object_warnings(simulation.cluster, simulation.scheduler_names, configuration, *own):
            source.log.warn(warning)
    for problem in found.problems:
        source.log.warn(f"scheduler configuration: {problem}")
    for failed in found.remedy_errors:
        echo(f"note: {failed}; its changes are not tried", err=True)
    pods = ((POD, *key_in(pod)) for pod in simulation.cluster.server.by_index(POD, group_of, found.group))
    warnings = source.field_warnings(simulation, [*own, *pods])
    if output == TABLE:
        for line in lines(found):
            echo(line)
        print_section(source.log.unnamed(warnings))
    else:
        print_object({**explanation_document(found), **source.log.document(warnings)}, output)


def _own_objects(kind: str, namespace: str, name: str, found: "Explanation") -> "list[tuple[Kind, str, str]]":
    """The object that is explained, its PodGroup and its queue: kinds, namespaces and names."""
    from scheduler.api.kinds import POD_GROUP, QUEUE

    group_namespace, _, group = found.group.partition("/")
    others = (POD_GROUP, group_namespace, group), (QUEUE, "", found.queue)
    return list(dict.fromkeys((*((each, namespace, name) for each in _constants(kind)), *others)))


def _constants(kind: str) -> "list[Kind]":
    """The stored kinds that a kind on the command line stands for."""
    from scheduler.api import kinds

    return [getattr(kinds, each) for each in EXPLAINED[kind].constants] if kind in EXPLAINED else []


def _show_answer(answer: dict[str, Any], output: str) -> None:
    """Prints what the scheduler answers to a user who may not read the cluster."""
    echo("note: the scheduler answers this: without the names of others, and without changes that would help", err=True)
    if output == TABLE:
        for line in answer.get("lines", ()):
            for part in hanging(str(line), terminal_width(), indent=4):
                echo(part)
    else:
        print_object(answer.get("explanation", {}), output)
