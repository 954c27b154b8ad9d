"""``playground fail`` and ``recover`` change the annotation with the faults of a node, which a running playground
watches; ``clean`` removes what a playground left behind."""

import time
from collections.abc import Callable, Sequence

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.playground.serve import request, watching
from scheduler.cli.target import connection_options
from scheduler.cli.text import echo
from scheduler.playground.faults import LEVELS, SEPARATE, ChipFault, FaultOf, Faults, Kubelet, NodeHealth, write_faults

_CONFLICT = 409
_ATTEMPTS = 5
_HEALTH = [health.value for health in NodeHealth if health is not NodeHealth.HEALTHY]


@click.command("fail")
@click.argument("node", shell_complete=names_of("NODE"))
@click.option("--chip", "chips", type=click.IntRange(0), multiple=True, help="A chip to break. Repeatable.")
@click.option("--network", is_flag=True, help="Only the network of the chips fails.")
@click.option("--recovering", is_flag=True, help="The chips are being reset.")
@click.option("--division", is_flag=True, help="No virtual NPU can be created on the chips, which work otherwise.")
@click.option(
    "--level", type=click.Choice(LEVELS), default=SEPARATE, show_default=True, help="Level of the fault of the chips."
)
@click.option("--switch", is_flag=True, help="The switch of the super pod fails.")
@click.option("--kubelet", is_flag=True, help="The node stops answering: it becomes NotReady.")
@click.option(
    "--health", type=click.Choice(_HEALTH), default=NodeHealth.UNHEALTHY.value, show_default=True,
    help="Health of the node or its switch.",
)  # fmt: skip
@connection_options()
def fail_command(
    connection: Connection, node: str, chips: Sequence[int], network: bool, recovering: bool, division: bool,
    level: str, switch: bool, kubelet: bool, health: str,
) -> None:  # fmt: skip
    """Break chips of a simulated node, or the node.

    Without --chip, --switch and --kubelet, NodeD reports a hardware fault of the node.

    \b
    volcano-py playground fail npu-910b-8-0 --chip 3 --chip 4
    volcano-py playground fail npu-910b-8-0 --chip 3 --network
    volcano-py playground fail npu-910b-8-1
    """
    if (network or recovering or division) and not chips:
        raise click.UsageError("--network, --recovering and --division are about chips: name them with --chip")
    if network + recovering + division > 1:
        raise click.UsageError("--network, --recovering and --division exclude each other")
    if switch and health == NodeHealth.PRE_SEPARATE.value:
        raise click.UsageError("--health PreSeparate is about a node, not about its switch")
    if not switch and health == NodeHealth.SUB_HEALTHY.value:
        raise click.UsageError("--health SubHealthy is about a switch: add --switch")
    flags = {FaultOf.NETWORK: network, FaultOf.RECOVERING: recovering, FaultOf.DIVISION: division}
    of = next((fault for fault, given in flags.items() if given), FaultOf.CHIP)
    state = NodeHealth(health)

    def change(faults: Faults) -> Faults:
        from msgspec.structs import replace

        if chips:
            faults = faults.with_chips(chips, ChipFault(fault=of, level=level, since=time.time_ns() // 10**6))
        if switch:
            faults = replace(faults, switch=state)
        if kubelet:
            faults = replace(faults, kubelet=Kubelet.STOPPED)
        if not (chips or switch or kubelet):
            faults = replace(faults, node=state)
        return faults

    _change(connection, node, chips, change, network=network, switch=switch, kubelet=kubelet)


@click.command("recover")
@click.argument("node", shell_complete=names_of("NODE"))
@click.option("--chip", "chips", type=click.IntRange(0), multiple=True, help="Only this chip. Repeatable.")
@connection_options()
def recover_command(connection: Connection, node: str, chips: Sequence[int]) -> None:
    """Repair a simulated node, or some of its chips."""
    _change(connection, node, chips, (lambda faults: faults.without_chips(chips)) if chips else None)


@click.command("clean")
@connection_options()
def clean_command(connection: Connection) -> None:
    """Remove all simulated nodes and the Pods on them, after a playground that was killed."""

    async def work(cluster: Cluster) -> None:
        from scheduler.cluster.kube.playground.role import Playground

        playground = Playground(cluster.client)
        async with watching(cluster, playground):
            nodes, pods = await request("remove simulated nodes", cluster, playground.clean_up())
        echo(f"removed {nodes} nodes and {pods} Pods")

    connection.run(work)


def _change(
    connection: Connection,
    name: str,
    chips: Sequence[int],
    change: Callable[[Faults], Faults] | None,
    *,
    network: bool = False,
    switch: bool = False,
    kubelet: bool = False,
) -> None:
    """Changes the faults of a node; None: removes them, malformed ones too. ``network``, ``switch``, ``kubelet``: it
    has to have these, simulated. Raises CommandError."""

    async def work(cluster: Cluster) -> None:
        from msgspec import convert

        from scheduler.playground.node import faults_of, machine_of
        from scheduler.playground.objects import FAMILY, FAULTS, NODE, PLUGIN_FAMILY, SimulatedNode

        for attempt in range(_ATTEMPTS):
            node = convert(await cluster.get(NODE, "", name), SimulatedNode)
            labels = node.metadata.labels or {}
            if FAMILY not in labels and PLUGIN_FAMILY not in labels:
                raise CommandError(f"Node {name} is not simulated: it has no label {FAMILY} or {PLUGIN_FAMILY}")
            if kubelet and FAMILY not in labels:
                raise CommandError(f"Node {name} has a real kubelet: stop that instead")
            try:
                machine = machine_of(node)
                text = None if change is None else write_faults(change(faults_of(node)))
            except ValueError as error:
                raise CommandError(f"Node {name}: {error}") from None
            if missing := [chip for chip in chips if chip >= machine.family.chips]:
                raise CommandError(
                    f"Node {name} has no chip {missing[0]}: its chips are 0 to {machine.family.chips - 1}"
                )
            if network and not machine.family.has_network:
                raise CommandError(f"Node {name}: chips of the family {machine.family.name} have no network")
            if switch and not machine.family.super_pods:
                raise CommandError(f"Node {name} has no switch: it is in no super pod")
            meta = {"annotations": {FAULTS: text}, "resourceVersion": node.metadata.resource_version}
            try:
                await cluster.patch(NODE, "", name, {"metadata": meta})
            except CommandError as error:
                if error.status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise
                continue
            echo(f"faults of {name}: {text or 'none'}")
            return

    connection.run(work)
