"""The accounts of Pods that belong to no queue. Sums are kept from session to session; a session accounts only for the
groups of Pods that have changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.api.snapshot import Snapshot, TaskGroup
from scheduler.framework.figures import CardOwner, CardUser
from scheduler.plugins.capacity_card.accounting import AccountBuilder
from scheduler.plugins.capacity_card.card_users import cards_in
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, CardHolding, add, add_exactly


@dataclass(slots=True)
class WithoutQueueAccounts:
    """What Pods that belong to no queue hold."""

    inventory: CardInventory
    _groups: dict[str, tuple[TaskGroup, CardHolding]] = field(default_factory=dict)
    by_namespace: dict[str, CardHolding] = field(default_factory=dict)
    """Namespace -> what its Pods hold, with cpu and memory."""
    _cards: dict[tuple[str, bool], Amounts] = field(default_factory=dict)
    """Namespace, and whether the Pods are online -> cards."""

    def follow(self, groups: Mapping[str, TaskGroup], account_builder: AccountBuilder) -> None:
        """Accounts for the groups that have changed."""
        for key in self._groups.keys() - groups.keys():
            self._add(*self._groups.pop(key), -1)
        for key, group in groups.items():
            known = self._groups.get(key)
            if known is None or known[0] is not group:
                if known is not None:
                    self._add(*known, -1)
                new = self._groups[key] = group, account_builder.holding(group.tasks)
                self._add(*new, 1)

    def _add(self, group: TaskGroup, holding: CardHolding, sign: int) -> None:
        """Adds what a group holds to the sums, or removes it (``sign`` -1)."""
        total = self.by_namespace.setdefault(group.namespace, CardHolding({}, {}))
        total.add_exactly(holding, sign)
        if not total:
            del self.by_namespace[group.namespace]
        cards: Amounts = {}
        add(cards, cards_in(holding, self.inventory))
        if cards:
            key = group.namespace, group.cls.online
            sums = self._cards.setdefault(key, {})
            add_exactly(sums, cards, sign)
            if not sums:
                del self._cards[key]

    def users(self, charged: Mapping[str, str]) -> Iterator[tuple[CardUser, Amounts]]:
        """Yields the users of cards, and these cards. ``charged``: namespace -> the queue that is charged for it."""
        for (namespace, online), cards in self._cards.items():
            yield CardUser(charged.get(namespace, ""), namespace, online), cards

    def owners(self, charged: Mapping[str, str]) -> Iterator[CardOwner]:
        """Yields what each owner of Pods that use cards holds of a card; an owner may occur several times."""
        for group, holding in self._groups.values():
            user = CardUser(charged.get(group.namespace, ""), group.namespace, group.cls.online)
            for card, amount in cards_in(holding, self.inventory):
                yield CardOwner(user, group.owner, card, amount)


def without_queue_accounts(snapshot: Snapshot, account_builder: AccountBuilder) -> WithoutQueueAccounts:
    """Returns the accounts of a snapshot. They hold until the next call for the same cluster."""
    groups, inventory = snapshot.without_queue.groups, account_builder.inventory

    def follow(last: WithoutQueueAccounts | None) -> WithoutQueueAccounts:
        accounts = last if last is not None and last.inventory is inventory else WithoutQueueAccounts(inventory)
        accounts.follow(groups, account_builder)
        return accounts

    return snapshot.memory.memo(WithoutQueueAccounts, (groups, inventory), follow, account_builder.unlimited)
