"""Names of the cluster for completion: quickly, or not at all."""

import re
from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem

_COMPLETED: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")
"""What may be put on the line: a shell would act on much of the rest."""
_SECONDS = 1.0
"""As long as a person waits for a completion."""
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(kind: str) -> Complete:
    """Completes to the names of objects; ``kind``: the name of a constant of ``scheduler.api.kinds``.

    Silent in every way when there is no cluster, no answer in time or no right to ask.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            names = _names(kind, ctx)
            return [CompletionItem(n) for n in names if n.startswith(incomplete) and _COMPLETED.fullmatch(n)]
        except (Exception, click.exceptions.Exit):  # a completion that complains would garble the line being typed
            return []

    return complete


def _names(kind: str, ctx: click.Context) -> list[str]:
    import asyncio

    from scheduler.api import kinds
    from scheduler.cli.connection import Cluster, Connection
    from scheduler.cluster.kube.transport.sources import Source

    given = {name: ctx.params.get(name) for name in Connection.__dataclass_fields__}
    connection = Connection(**{name: value for name, value in given.items() if value})
    wanted = getattr(kinds, kind)

    async def ask(cluster: Cluster) -> list[str]:
        async with asyncio.timeout(_SECONDS):
            found = await cluster.fetch(Source(wanted, cluster.scope if wanted.namespaced else ""))
        return [str(raw["metadata"]["name"]) for raw in found]

    return connection.run(ask, timeout=_SECONDS)
