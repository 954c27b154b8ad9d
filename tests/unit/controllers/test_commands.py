"""The Commands that wait for an object, and the Commands that no longer wait."""

from scheduler.api.batch import Action, Command
from scheduler.api.kinds import COMMAND, QUEUE, VCJOB
from scheduler.api.objects import ObjectMeta, OwnerReference
from scheduler.controllers.commands import TIMEOUT, Commands
from scheduler.controllers.store import Store


def aimed_at(name: str, kind: str = "Job", version: str = "1") -> Command:
    target = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind=kind, name=name)
    meta = ObjectMeta(name="order", namespace="ns", uid="c1", resource_version=version)
    return Command(metadata=meta, action="AbortJob", target=target)


def commands_of_jobs() -> tuple[Store, Commands]:
    store = Store()
    return store, Commands(store, VCJOB, [Action.ABORT_JOB], "CommandIssued")


def test_a_command_that_is_aimed_at_another_job_is_no_order_for_the_first_one_any_more() -> None:
    store, commands = commands_of_jobs()
    old, new = aimed_at("a"), aimed_at("b", version="2")
    store.upsert(COMMAND, old)
    assert commands.observe(None, old, 0.0) == [("ns", "a")]

    store.upsert(COMMAND, new)
    assert commands.observe(old, new, 0.0) == [("ns", "a"), ("ns", "b")]

    assert (commands.next(("ns", "a")), commands.next(("ns", "b"))) == (None, new)


def test_a_change_of_a_command_does_not_restart_its_waiting_time() -> None:
    store, commands = commands_of_jobs()
    old, new = aimed_at("a"), aimed_at("a", version="2")
    for before, after, now in ((None, old, 0.0), (old, new, 20.0)):
        store.upsert(COMMAND, after)
        commands.observe(before, after, now)

    assert commands.without_target(("ns", "a"), 20.0).after == TIMEOUT - 20.0


def test_a_command_for_another_kind_is_left_alone() -> None:
    _, commands = commands_of_jobs()

    assert commands.observe(None, aimed_at("a", "CronJob"), 0.0) == []
    assert commands.observe(None, Command(metadata=ObjectMeta(name="no-target")), 0.0) == []


def test_a_queue_takes_commands_from_any_namespace() -> None:
    commands = Commands(Store(), QUEUE, [Action.OPEN_QUEUE], "QueueNotFound")
    command = aimed_at("q")
    assert command.target is not None
    command.target.api_version, command.target.kind = "scheduling.volcano.sh/v1beta1", "Queue"

    assert commands.observe(None, command, 0.0) == [("", "q")]
