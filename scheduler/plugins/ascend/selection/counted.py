"""Any free chips of a node: the lowest ids, or those of the fullest cards first."""

from scheduler.plugins.ascend.family import Choice, Request, Selection
from scheduler.plugins.ascend.masks import groups_of, ids_of


def any_chips(free: int, request: Request) -> Choice | None:
    """The lowest ids. A node with fewer free chips is better."""
    number = free.bit_count()
    return Choice(tuple(ids_of(free)[: request.chips]), number) if request.chips <= number else None


def fullest_groups_first(size: int, chips: int) -> Selection:
    """Chips of the groups with the fewest free chips first, lowest ids first, in this order in the annotation. A node
    with fewer free chips is better."""

    def select(free: int, request: Request) -> Choice | None:
        number = free.bit_count()
        if request.chips > number:
            return None
        groups = sorted((ids_of(group) for group in groups_of(free, size, chips)), key=len)
        return Choice(tuple([chip for group in groups for chip in group][: request.chips]), number)

    return select
