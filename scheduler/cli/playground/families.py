"""``playground families``: the kinds of nodes that can be simulated."""

import click

from scheduler.cli.output import TABLE, WIDE, Column, RowTable, output_option
from scheduler.cli.text import echo
from scheduler.playground.families import FAMILIES, NodeFamily


@click.command("families")
@output_option(TABLE, WIDE)
def families_command(output: str) -> None:
    """List the kinds of nodes that can be simulated."""
    columns: list[Column[NodeFamily]] = [
        Column("Family", lambda family: family.name),
        Column("Chips", lambda family: family.chips),
        Column("Resource", lambda family: family.resource),
        Column("accelerator-type", lambda family: family.labels.get("accelerator-type", "")),
        Column("Virtual NPUs", lambda family: ", ".join(template.suffix for template in family.templates), wide=True),
        Column("Hardware", lambda family: family.hardware),
    ]
    for line in RowTable(columns, output).lines(list(FAMILIES.values())):
        echo(line)
