"""No device is allocated twice, and undoing a placement restores the books exactly."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from scheduler.cluster.memory.resource_claims import sync_claims
from scheduler.plugins.predicates.dynamic_resources.ledger import DeviceLedger
from scheduler.plugins.predicates.plugin import Predicates
from tests.builders import Raw, World, configuration, group, node, pods
from tests.device_builders import (
    allocated,
    claim,
    device,
    device_class,
    gpus,
    named,
    request,
    resource_slice,
    template,
    templated,
)
from tests.examples import examples
from tests.unit.plugins import statements

CONF = configuration(["gang"], ["predicates"])
NIC = device("nic", None, {"bandwidth": "10G"}, allowMultipleAllocations=True)
PARTS = [
    device(f"part-{i}", {"part": True}, consumesCounters=[{"counterSet": "all", "counters": {"slots": {"value": n}}}])
    for i, n in enumerate("112")
]
COUNTERS = [{"name": "all", "counters": {"slots": {"value": "3"}}}]
PART = 'has(device.attributes["gpu.example.com"].part)'
INDEX = 'has(device.attributes["gpu.example.com"].index)'


SHARED = "device.allowMultipleAllocations"
TEMPLATES = [
    template("one", request("gpu", "gpu", INDEX)),
    template("two", request("gpu", "gpu", INDEX, count=2)),
    template("part", request("gpu", "gpu", PART)),
    template("both", request("gpu", "gpu", PART), request("more", "gpu", INDEX)),
    template("share", request("nic", "gpu", SHARED, capacity={"requests": {"bandwidth": "4G"}})),
]
ASKED = [
    *(templated(name) for name in ("one", "two", "part", "part", "part", "both", "share", "share", "share")),
    *(named("common") for _ in range(3)),
    [*templated("one"), {"name": "c9", "resourceClaimName": "common"}],
]
RUNNING = 2


def machine(name: str) -> list[Raw]:
    devices = [*gpus(3), NIC, *PARTS]
    counters = resource_slice(None, name, name=f"{name}-counters", count=2, sharedCounters=COUNTERS)
    return [node(name, "16c+64Gi"), counters, resource_slice(devices, name, name=f"{name}-devices", count=2)]


@dataclass
class Setting(statements.Setting):
    """A session and its ledger of devices."""

    ledger: DeviceLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = next(p for p in self.session.plugins if isinstance(p, Predicates)).devices._ledger

    def books(self) -> list[object]:
        ledger, books = self.ledger, self.ledger.books
        return [
            sorted(ledger._own),
            {key: (sorted(shared.users), sorted(shared.allocated)) for key, shared in ledger._shared.items()},
            {taken.id: number for taken, number in books._taken.items()},
            {shared.id: (by.users, dict(by.consumed)) for shared, by in books._shares.items()},
            {(pool, *key): n for pool, used in books._counters_used.items() for key, n in used.items() if n},
        ]


class DevicesAreConserved(statements.Statements):
    """Makes statements on two nodes with exclusive, shared and partitioned devices."""

    @initialize(running=st.lists(st.sampled_from(["gpu-0", "gpu-1", "part-0"]), unique=True, max_size=RUNNING))
    def open(self, running: list[str]) -> None:
        jobs: list[Raw] = []
        for i, name in enumerate(running):
            held = claim(f"r{i}", request(), status=allocated("a", name))
            jobs += [held, group(f"r{i}", phase="Running"), *pods(f"r{i}", 1, "1c", f"r{i}", on="a")]
            jobs[-1]["spec"]["resourceClaims"] = named(f"r{i}")
        for i, claims in enumerate(ASKED):
            jobs += [group(f"j{i}"), *pods(f"j{i}", 1, "1c", f"j{i}", resourceClaims=claims)]
        common = claim("common", request("gpu", "gpu", INDEX))
        world = World(device_class(), *machine("a"), *machine("b"), *TEMPLATES, common, *jobs)
        sync_claims(world.cluster.server)
        self.opened = Setting(world.session(CONF))
        self.begin(self.opened, [f"j{i}" for i in range(len(ASKED))], [f"r{i}" for i in range(len(running))])

    @invariant()
    def no_device_is_used_beyond_its_capacity(self) -> None:
        books = self.opened.ledger.books
        assert all(number == 1 for number in books._taken.values())
        for shared, by in books._shares.items():
            assert all(amount <= shared.capacity[name].value for name, amount in by.consumed.items())
        for pool, used in books._counters_used.items():
            limits = books.inventory.counters(pool)
            assert all(0 <= number <= limits[key] for key, number in used.items())


DevicesAreConserved.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=20, deadline=None)
TestDevicesAreConserved = DevicesAreConserved.TestCase
