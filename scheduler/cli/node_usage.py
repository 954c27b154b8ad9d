"""How busy the nodes of a simulated cluster are: asked once of the monitoring system that the configuration names."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.api.usage import NodeUsage
from scheduler.cli.text import echo
from scheduler.framework.usage_source import UsageSource


def ask_usage(settings: UsageSource | None, nodes: Sequence[str]) -> Mapping[str, NodeUsage]:
    """By node, the moments in seconds from now (0 and less). Nothing, and a warning, if there is no answer."""
    if settings is None or not nodes:
        return {}
    from scheduler.cluster.usage import SourceError, measure_once

    try:
        usages = asyncio.run(measure_once(settings, nodes))
    except SourceError as error:
        echo(f"warning: the load of nodes is not known: {error}", err=True)
        return {}
    now = time.time()
    return {name: replace(usage, moment=min(usage.moment - now, 0.0)) for name, usage in usages.items()}
