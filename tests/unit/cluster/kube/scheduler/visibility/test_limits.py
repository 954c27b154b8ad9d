"""A rate limit per user in a bounded amount of memory."""

from scheduler.cluster.kube.scheduler.visibility.limits import KEYS, RateLimit


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
