"""``volcano-py node``: the nodes as the scheduler sees them."""

import click

from scheduler.cli.node.chips import chips_command


@click.group("node")
def node_group() -> None:
    """Show what the scheduler knows about nodes."""


node_group.add_command(chips_command)
