"""What settled jobs hold of card quotas: sums per queue, kept from session to session.

A session computes only the accounts of the jobs that changed since the session before. All amounts are whole numbers,
so the sums are exact in any order.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.api.job import Job
from scheduler.api.snapshot import Snapshot
from scheduler.plugins.capacity_card.accounting import AccountBuilder, JobAccount, account_of
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, add_exactly


class PlainAccount(NamedTuple):
    """The account of a settled job that does nothing but hold amounts of its own queue."""

    queue: str
    allocated: Amounts
    elastic: Amounts
    independent_of_nodes: bool


@dataclass(slots=True)
class SettledAccounts:
    """The accounts of the settled jobs of one snapshot."""

    identity: object
    """The identity of the jobs (``JobChanges.identity``)."""
    inventory: CardInventory
    plain: dict[str, PlainAccount] = field(default_factory=dict)
    """Key of a job -> its account."""
    sums: dict[str, tuple[Amounts, Amounts]] = field(default_factory=dict)
    """Queue -> allocated and elastic amounts of the plain accounts."""
    others: dict[str, None] = field(default_factory=dict)
    """Keys of the settled jobs without a plain account."""

    def update(self, keys: Iterable[str], jobs: Mapping[str, Job], account_builder: AccountBuilder) -> None:
        """Computes the accounts of some jobs again."""
        for key in keys:
            self.others.pop(key, None)
            old = self.plain.pop(key, None)
            if old is not None:
                self._add(old, -1)
            job = jobs.get(key)
            if job is None or not job.is_settled:
                continue
            account = account_of(job, account_builder)
            if _is_plain(account):
                allocated, elastic = account.holding.allocated, account.elastic
                self.plain[key] = new = PlainAccount(job.queue, allocated, elastic, account.independent_of_nodes)
                self._add(new, 1)
            else:
                self.others[key] = None

    def _add(self, account: PlainAccount, sign: int) -> None:
        allocated, elastic = self.sums.setdefault(account.queue, ({}, {}))
        add_exactly(allocated, account.allocated, sign)
        add_exactly(elastic, account.elastic, sign)


def settled_accounts(snapshot: Snapshot, account_builder: AccountBuilder) -> SettledAccounts:
    """Returns the accounts of a snapshot. They hold until the next call for the same cluster, and must be asked for
    before the session changes jobs."""
    changes, inventory = snapshot.job_changes, account_builder.inventory

    def follow(last: SettledAccounts | None) -> SettledAccounts:
        if last is None or last.identity not in (changes.identity, changes.follows):
            last = SettledAccounts(changes.identity, inventory)
            keys: Collection[str] = snapshot.jobs.keys()
        else:
            keys = changes.keys if last.identity is not changes.identity else ()
            if last.inventory is not inventory:
                plain = last.plain.items()
                on_nodes = (key for key, account in plain if not account.independent_of_nodes)
                keys = {*keys, *on_nodes, *last.others}
        last.update(keys, snapshot.jobs, account_builder)
        last.identity, last.inventory = changes.identity, inventory
        return last

    terms = account_builder.unlimited, account_builder.signed_since
    return snapshot.memory.memo(SettledAccounts, (changes.identity, inventory), follow, terms)


def _is_plain(account: JobAccount) -> bool:
    more = account.other_queues, account.unproven, account.reserved, account.waiting, account.conflict, account.problems
    return not any(more) and not account.holding.releasing and not account.holding.uncertain
