"""``volcano-py jobflow`` and ``volcano-py jobtemplate``: the same verbs for two kinds."""

import click

from scheduler.cli.flow.change import create_command, delete_command
from scheduler.cli.flow.kinds import JOB_FLOW, JOB_TEMPLATE, FlowKind
from scheduler.cli.flow.show import describe_command, get_command, list_command


def _group(kind: FlowKind) -> click.Group:
    group = click.Group(kind.command, help=f"Create, show and delete {kind.plural}.")
    for build in (create_command, delete_command, describe_command, get_command, list_command):
        group.add_command(build(kind))
    return group


jobflow_group = _group(JOB_FLOW)
jobtemplate_group = _group(JOB_TEMPLATE)
