"""How many questions users may ask: rates and numbers at a time, per user and per namespace.

A tenant can create any number of ServiceAccounts in a namespace. So the accounts of a namespace share limits, and so do
all questions about a namespace. A question about a namespace counts only after its user was authorized: users without
rights there cannot use up its limits.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from scheduler.cluster.kube.scheduler.visibility.user import RefusedError, User

KEYS: Final = 1024
"""Keys that are remembered; beyond that, the one seen least recently is forgotten."""


class RateLimit:
    """A token bucket for each key."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._rate = per_second
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Key -> tokens left, and when."""

    def wait(self, key: str) -> float:
        """Takes a token. Returns 0, or the seconds until there is one: then no token is taken."""
        now = self._clock()
        left, at = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= 1
        self._left[key] = (left - taken, now)
        if len(self._left) > KEYS:
            del self._left[next(iter(self._left))]
        return 0.0 if taken else (1 - left) / self._rate

    def take(self, key: str, whose: str = "") -> None:
        """Takes a token. Raises RefusedError if there is none; ``whose``: the end of the refusal, such as " about
        x"."""
        seconds = self.wait(key)
        if seconds:
            raise RefusedError(429, f"too many questions{whose}; the next one in {math.ceil(seconds)} s", seconds)


class Concurrency:
    """A limit of questions at a time, for each key."""

    def __init__(self, most: int, what: str, retry_after: float) -> None:
        """``what``: the refusal behind the number, with the key at ``{!r}``; ``retry_after``: seconds."""
        self._most = most
        self._what = what
        self._retry_after = retry_after
        self._counts: Counter[str] = Counter()

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Counts a question for the duration of the block. Raises RefusedError if there are too many."""
        if self._counts[key] >= self._most:
            raise RefusedError(429, f"{self._most} {self._what.format(key)}", self._retry_after)
        self._counts[key] += 1
        try:
            yield
        finally:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]


class Allowance:
    """The limits at a time of one sort of requests: per user, per namespace of ServiceAccounts, per subject."""

    def __init__(self, what: str, of_user: int, of_namespace: int, retry_after: float) -> None:
        """``what``: the refusal behind the number, with the words for user or namespace at ``{}``."""
        self._users = Concurrency(of_user, what.format("of user {!r}"), retry_after)
        self._accounts = Concurrency(of_namespace, what.format("of accounts of namespace {!r}"), retry_after)
        self._subjects = Concurrency(of_namespace, what.format("about namespace {!r}"), retry_after)

    @contextmanager
    def of(self, user: User) -> Iterator[None]:
        """Counts a request of a user for the duration of the block. Raises RefusedError if there are too many."""
        with ExitStack() as held:
            held.enter_context(self._users.held(user.name))
            if user.namespace:
                held.enter_context(self._accounts.held(user.namespace))
            yield

    @contextmanager
    def about(self, namespace: str) -> Iterator[None]:
        """Counts a request about a namespace; "" is the whole cluster, which has no limit. Raises RefusedError."""
        if not namespace:
            yield
            return
        with self._subjects.held(namespace):
            yield


class QuestionRates:
    """Limits the rates of questions of users, and of questions about namespaces."""

    def __init__(self, per_user: RateLimit | None = None, per_namespace: Callable[[], RateLimit] | None = None) -> None:
        """Defaults: ten questions of a user in a row, then one every two seconds; forty in a row of the accounts of a
        namespace and about a namespace, then two a second."""
        make = per_namespace or (lambda: RateLimit(burst=40, per_second=2))
        self._users = per_user or RateLimit(burst=10, per_second=0.5)
        self._accounts = make()
        self._subjects = make()

    def asked_by(self, user: User) -> None:
        """Counts a question of a user. Raises RefusedError if there were too many."""
        self._users.take(user.name)
        if user.namespace:
            self._accounts.take(user.namespace, f" of accounts of namespace {user.namespace!r}")

    def asked_about(self, namespace: str) -> None:
        """Counts a question about a namespace; "" is the whole cluster. Raises RefusedError if there were too many."""
        if namespace:
            self._subjects.take(namespace, f" about namespace {namespace!r}")
