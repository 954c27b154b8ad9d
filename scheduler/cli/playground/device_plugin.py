"""``playground device-plugin``: simulated devices for a real kubelet."""

import os
from pathlib import Path

import click

from scheduler.api.names import NPU_CORE
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import Duration
from scheduler.cli.output import JSON, TABLE, output_option
from scheduler.cli.playground.serve import request, run_until_stopped, show, watching
from scheduler.cli.playground.shapes import check_division, division_option
from scheduler.cli.target import connection_options
from scheduler.playground.families import PLUGIN_FAMILIES

_ROOT = Path("/var/lib/kubelet")
_MAX_SOCKET = 107
"""Bytes of the path of a socket, at most."""


@click.command("device-plugin")
@click.option("--node", required=True, metavar="NAME", help="The Node of the kubelet.", shell_complete=names_of("NODE"))
@click.option(
    "--kubelet-dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=_ROOT / "device-plugins",
    show_default=True, help="The kubelet's directory for device plugins.",
)  # fmt: skip
@click.option(
    "--root-dir", "root", type=click.Path(file_okay=False, path_type=Path), default=_ROOT,
    show_default=True, help="The flag --root-dir of the kubelet: it lists the devices of Pods there.",
)  # fmt: skip
@click.option(
    "--family", type=click.Choice(list(PLUGIN_FAMILIES)), default="910b-8", show_default=True, metavar="FAMILY",
    help="Kind of the node, see playground families; gpu-8: GPUs.",
)  # fmt: skip
@division_option
@click.option("--for", "seconds", type=Duration(), help="Stop after this time; by default when interrupted.")
@output_option(TABLE, JSON)
@connection_options()
def device_plugin_command(
    connection: Connection,
    node: str,
    directory: Path,
    root: Path,
    family: str,
    division: str,
    seconds: float | None,
    output: str,
) -> None:
    """Offer simulated NPUs or GPUs to a real kubelet, until interrupted.

    Speaks the kubelet's API for device plugins. Containers get the chips that the scheduler chose, in environment
    variables such as ASCEND_VISIBLE_DEVICES. No NPU and no GPU is needed.

    \b
    volcano-py playground device-plugin --node node-1 --family 910b-8
    volcano-py playground fail node-1 --chip 3
    """
    kind = PLUGIN_FAMILIES[family]
    check_division(kind, division)
    try:
        from scheduler.cluster.kube.playground.device_plugin.role import NodeDevicePlugin, socket_of
    except ImportError as error:
        raise CommandError(f"{error}: install the extra, as in pip install 'volcano-py[device-plugin]'") from None
    if not directory.is_dir():
        raise CommandError(f"there is no directory {directory}: name that of the kubelet with --kubelet-dir")
    socket = socket_of(directory, max((kind.resource, NPU_CORE), key=len))
    if len(os.fsencode(socket)) > _MAX_SOCKET:
        raise CommandError(f"the path of the socket {socket} is longer than {_MAX_SOCKET} bytes")

    async def work(cluster: Cluster) -> None:
        def progress(kind: str, node: str, text: str) -> None:
            show(output, kind, node, text)

        plugin = NodeDevicePlugin(cluster.client, node, directory, root, progress)
        async with watching(cluster, plugin):
            try:
                await request(f"write the labels of Node {node}", cluster, plugin.announce(kind, division))
            except ValueError as error:
                raise CommandError(str(error)) from None
            await run_until_stopped(plugin.run(), seconds)

    connection.run(work)
