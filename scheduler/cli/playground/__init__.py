"""``volcano-py playground``: NPU nodes without NPUs, to try the product."""

from scheduler.cli.playground.change import clean_command, fail_command, recover_command
from scheduler.cli.playground.device_plugin import device_plugin_command
from scheduler.cli.playground.serve import playground_group
from scheduler.cli.playground.shapes import families_command, nodes_command

for _command in (
    clean_command,
    device_plugin_command,
    fail_command,
    families_command,
    nodes_command,
    recover_command,
):
    playground_group.add_command(_command)

__all__ = ["playground_group"]
