"""Limits per user and per namespace, in a bounded amount of memory."""

import pytest

from scheduler.cluster.kube.scheduler.visibility.limits import KEYS, Allowance, QuestionRates, RateLimit
from scheduler.cluster.kube.scheduler.visibility.user import RefusedError, User


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_user_may_ask_a_burst_and_then_at_the_rate() -> None:
    clock = Clock()
    limit = RateLimit(burst=2, per_second=0.5, clock=clock)

    assert [limit.wait("a") for _ in range(3)] == [0, 0, 2]
    clock.now = 1
    assert limit.wait("a") == 1
    clock.now = 2
    assert [limit.wait("a"), limit.wait("b")] == [0, 0]


def test_refused_questions_do_not_postpone_the_next_one() -> None:
    clock = Clock()
    limit = RateLimit(burst=1, per_second=1, clock=clock)
    limit.wait("a")

    for _ in range(10):
        clock.now += 0.1
        waits = limit.wait("a")

    assert round(waits, 6) in (0, 0.0)


def test_the_number_of_users_in_memory_is_bounded() -> None:
    limit = RateLimit(burst=1, per_second=1, clock=Clock())

    for number in range(3 * KEYS):
        limit.wait(str(number))

    assert len(limit._left) == KEYS


def account(namespace: str, name: str) -> User:
    return User(f"system:serviceaccount:{namespace}:{name}")


def test_the_namespace_of_a_service_account_is_in_its_user_name() -> None:
    assert [user.namespace for user in (account("team", "a"), User("alice"), User("system:node:n"))] == ["team", "", ""]


def test_all_accounts_of_a_namespace_share_a_rate() -> None:
    rates = QuestionRates(RateLimit(10, 0.5, Clock()), lambda: RateLimit(3, 1, Clock()))
    for number in range(3):
        rates.asked_by(account("team", f"a{number}"))

    with pytest.raises(RefusedError, match="too many questions of accounts of namespace 'team'; the next one in 1 s"):
        rates.asked_by(account("team", "another"))
    rates.asked_by(account("other", "a0"))
    rates.asked_by(User("alice"))


def test_questions_about_a_namespace_share_a_rate_and_those_about_the_cluster_do_not() -> None:
    rates = QuestionRates(per_namespace=lambda: RateLimit(1, 1, Clock()))
    rates.asked_about("team")

    with pytest.raises(RefusedError, match="too many questions about namespace 'team'"):
        rates.asked_about("team")
    rates.asked_about("other")
    for _ in range(3):
        rates.asked_about("")


def test_a_user_the_accounts_of_a_namespace_and_a_subject_have_limits_at_a_time() -> None:
    allowance = Allowance("pages {} are open", of_user=1, of_namespace=2, retry_after=30.0)
    user = User("alice")
    with allowance.of(user), pytest.raises(RefusedError, match=r"^1 pages of user 'alice' are open$"):
        allowance.of(user).__enter__()
    with allowance.of(User("alice")), allowance.of(account("team", "a")), allowance.of(account("team", "b")):
        message = r"^2 pages of accounts of namespace 'team' are open$"
        with pytest.raises(RefusedError, match=message), allowance.of(account("team", "c")):
            pass
    with allowance.about("team"), allowance.about("team"), allowance.about(""):
        with pytest.raises(RefusedError, match=r"^2 pages about namespace 'team' are open$"), allowance.about("team"):
            pass
        with allowance.about("other"):
            pass
    with allowance.about("team"):
        pass
