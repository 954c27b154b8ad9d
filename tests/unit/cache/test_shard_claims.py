"""Schedulers that share nodes and queues by claims: no node or queue is ever used by two schedulers, and each is used
in the end."""

import random
from collections.abc import Mapping

import pytest

from scheduler.cache.shards import claims
from tests.examples import examples

Published = dict[str, frozenset[str]]
NAMES = "nm"
SCHEDULERS = ("a", "b", "c")
STEPS = 100


def names(text: str) -> frozenset[str]:
    return frozenset(text)


def published(**texts: str) -> Mapping[str, frozenset[str]]:
    return {name: names(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("desired", "all_published", "usable", "due"),
    [
        ("nm", {}, "", "nm"),
        ("nm", {"b": "n"}, "n", "nm"),
        ("m", {"b": "n"}, "", "m"),
        ("nm", {"b": "n", "c": "m"}, "n", "n"),
        ("nm", {"b": "nm", "c": "m"}, "n", "nm"),
        ("nm", {"b": "nm", "a": "m"}, "n", "n"),
        ("", {"b": "nm", "a": "m"}, "", ""),
    ],
    ids=[
        "what is free is claimed",
        "what is claimed is used",
        "what is no longer desired is given up",
        "what another has claimed is not claimed",
        "a claim that a later name has, too, is kept and not used",
        "a claim that an earlier name has, too, is withdrawn",
        "nothing is desired",
    ],
)
def test_claims_of_one_scheduler(desired: str, all_published: dict[str, str], usable: str, due: str) -> None:
    found = claims("b", names(desired), published(**all_published))
    assert (found.usable, found.due) == (names(usable), names(due))
    assert found.withdrawn == names(all_published.get("b", "")) - names(due)


class Scheduler:
    """Reads a prefix of the log, in order, and acts on it."""

    def __init__(self, name: str, log: list[tuple[str, frozenset[str]]]) -> None:
        self.name = name
        self.desired = names("")
        self.using = names("")
        """The nodes and queues about which the scheduler may be writing, until it has withdrawn its claim."""
        self._log = log
        self._seen = 0

    @property
    def is_up_to_date(self) -> bool:
        return self._seen == len(self._log)

    def sees_next(self) -> None:
        self._seen = min(self._seen + 1, len(self._log))

    def restarts(self) -> None:
        """Lists all objects of this moment."""
        self._seen = len(self._log)

    def acts(self) -> None:
        """Changes what the scheduler uses and claims, unless the watch has not delivered its last claim yet."""
        view: Published = dict(self._log[: self._seen])
        if any(name == self.name for name, _ in self._log[self._seen :]):
            return
        found = claims(self.name, self.desired, view)
        self.using |= found.usable
        if found.due != found.published:
            self.using &= found.due  # after all its writes have ended
            self._log.append((self.name, found.due))


def used_once(schedulers: Mapping[str, Scheduler]) -> bool:
    used = [name for scheduler in schedulers.values() for name in scheduler.using]
    return len(used) == len(set(used))


@pytest.mark.parametrize("seed", range(examples(300)))
def test_no_name_is_ever_used_by_two(seed: int) -> None:
    chance = random.Random(seed)
    log: list[tuple[str, frozenset[str]]] = []
    schedulers = {name: Scheduler(name, log) for name in SCHEDULERS}
    for _ in range(STEPS):
        scheduler = chance.choice([*schedulers.values()])
        match chance.choices(["see", "act", "desire", "restart"], [5, 5, 1, 0.2])[0]:
            case "see":
                scheduler.sees_next()
            case "act":
                scheduler.acts()
            case "desire":
                scheduler.desired = frozenset(chance.sample(NAMES, chance.choice([0, 1, 2, 2])))
            case "restart":
                scheduler.restarts()
        assert used_once(schedulers), log

    # Afterwards each name is desired by one of them, and all see and act in turn.
    for number, scheduler in enumerate(schedulers.values()):
        scheduler.desired = frozenset(NAMES[number : number + 1])
    for _ in range(6):
        for scheduler in schedulers.values():
            scheduler.restarts()
            scheduler.acts()
            assert used_once(schedulers), log
    assert [scheduler.using for scheduler in schedulers.values()] == [names("n"), names("m"), names("")]
