"""How much each resource counts where nodes or HyperNodes are filled one after the other."""

from scheduler.api.names import CPU, MEMORY
from scheduler.framework.arguments import Arguments


def resource_weights(arguments: Arguments, prefix: str) -> dict[str, int]:
    """The arguments ``<prefix>.cpu``, ``<prefix>.memory`` and, for each of those in ``<prefix>.resources`` ("a, b"),
    ``<prefix>.resources.<name>``, 1 each: resource -> weight."""
    weights = {name: arguments.integer(f"{prefix}.{name}", 1, least=0) for name in (CPU, MEMORY)}
    for name in arguments.names(f"{prefix}.resources"):
        if name not in weights:
            weights[name] = arguments.integer(f"{prefix}.resources.{name}", 1, least=0)
    return weights
