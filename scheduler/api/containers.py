"""What the containers of a Pod come to at one moment: init containers run one after the other, the others together."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Restarting(Protocol):
    @property
    def restart_policy(self) -> str | None: ...


C = TypeVar("C", bound=Restarting)
A = TypeVar("A")


def is_sidecar(init_container: Restarting) -> bool:
    """Whether an init container goes on running beside those that come after it."""
    return init_container.restart_policy == "Always"


def at_once(
    containers: Iterable[C],
    init_containers: Iterable[C] | None,
    amount: Callable[[C], A],
    nothing: A,
    add: Callable[[A, A], A],
    greater: Callable[[A, A], A],
) -> A:
    """The greater of what the containers (with sidecars) and each init container (with the sidecars started before it)
    come to, by the amount of each."""
    sidecars = peak = running = nothing
    for container in init_containers or ():
        there = add(sidecars, amount(container))
        peak = greater(peak, there)
        if is_sidecar(container):
            sidecars = there
    for container in containers:
        running = add(running, amount(container))
    return greater(add(running, sidecars), peak)
