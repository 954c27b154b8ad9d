"""The search on one node: the first combination of devices that satisfies all claims of a Pod."""

import pytest

from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.budget import TIMED_OUT, NodeRejectedError
from scheduler.plugins.predicates.dynamic_resources.search import release
from tests.builders import Raw
from tests.device_builders import alternatives, claim_spec, device, gpus, request, resource_slice
from tests.unit.plugins.predicates.dynamic_resources.nodes import demand, inventory, names, search

INDEX = 'device.attributes["gpu.example.com"].index'


def books(*devices: Raw, **spec: object) -> Books:
    return Books(inventory([resource_slice(devices, "n1", **spec)]))  # type: ignore[arg-type]


def test_the_first_free_devices_are_taken_and_none_twice() -> None:
    node = books(*gpus(3))
    two = demand(claim_spec(request(count=2)))

    assert names(search(node, two)) == [["gpu-0", "gpu-1"]]
    assert search(node, two) is None
    assert names(search(node, demand(claim_spec(request())))) == [["gpu-2"]]


def test_a_failed_search_takes_no_devices() -> None:
    node = books(*gpus(3))

    assert search(node, demand(claim_spec(request(count=2))), demand(claim_spec(request(count=2)))) is None
    assert names(search(node, demand(claim_spec(request(count=3))))) == [["gpu-0", "gpu-1", "gpu-2"]]


def test_releasing_the_devices_of_a_search_restores_the_books() -> None:
    node = books(*gpus(2))
    both = demand(claim_spec(request(count=2)))
    picks = search(node, both)
    assert picks is not None

    release(node, picks)

    assert names(search(node, both)) == [["gpu-0", "gpu-1"]]


def test_a_choice_is_undone_if_the_next_request_cannot_be_satisfied() -> None:
    node = books(*gpus(2))
    picky = demand(claim_spec(request("any"), request("first", "gpu", f"{INDEX} == 0")))

    assert names(search(node, picky)) == [["gpu-1", "gpu-0"]]


def test_claims_of_one_pod_are_satisfied_together() -> None:
    node = books(*gpus(2))

    found = search(node, demand(claim_spec(request())), demand(claim_spec(request("x", "gpu", f"{INDEX} == 0"))))

    assert names(found) == [["gpu-1"], ["gpu-0"]]


# --- alternatives ---
def test_the_first_alternative_that_can_be_satisfied_is_chosen() -> None:
    node = books(*gpus(2))
    choice = alternatives("r", ("four", request(count=4)), ("two", request(count=2)), ("one", request()))

    picks = search(node, demand(claim_spec(choice)))

    assert picks is not None
    assert [pick.alternative.name for pick in picks[0]] == ["r/two", "r/two"]


def test_an_alternative_is_undone_if_other_requests_need_its_devices() -> None:
    node = books(*gpus(2))
    choice = alternatives("r", ("two", request(count=2)), ("one", request()))

    picks = search(node, demand(claim_spec(choice, request("other"))))

    assert picks is not None
    assert [pick.alternative.name for pick in picks[0]] == ["r/one", "other"]


# --- all devices ---
def test_allocation_mode_all_takes_every_selected_device() -> None:
    everything = demand(claim_spec(request("gpu", "gpu", f"{INDEX} > 0", allocationMode="All")))

    assert names(search(books(*gpus(3)), everything)) == [["gpu-1", "gpu-2"]]


def test_allocation_mode_all_fails_if_a_selected_device_is_taken_or_none_exists() -> None:
    everything = demand(claim_spec(request(allocationMode="All")))
    node = books(*gpus(2))
    search(node, demand(claim_spec(request())))

    assert search(node, everything) is None
    assert search(books(), everything) is None


def test_allocation_mode_all_reports_a_violated_constraint() -> None:
    spec = claim_spec(request(allocationMode="All"), constraints=[{"matchAttribute": "gpu.example.com/index"}])

    with pytest.raises(NodeRejectedError, match=r"cannot add device gpu.example.com/n1/gpu-1"):
        search(books(*gpus(2)), demand(spec))


# --- constraints ---
def numa(*nodes: int) -> list[Raw]:
    return [device(f"gpu-{i}", {"numa": node}) for i, node in enumerate(nodes)]


def test_match_attribute_requires_equal_values() -> None:
    spec = claim_spec(request(count=2), constraints=[{"matchAttribute": "gpu.example.com/numa"}])

    assert names(search(books(*numa(0, 1, 2, 1)), demand(spec))) == [["gpu-1", "gpu-3"]]


def test_distinct_attribute_requires_distinct_values() -> None:
    spec = claim_spec(request(count=3), constraints=[{"distinctAttribute": "gpu.example.com/numa"}])

    assert names(search(books(*numa(0, 0, 1, 0, 2)), demand(spec))) == [["gpu-0", "gpu-2", "gpu-4"]]
    assert search(books(*numa(0, 1, 0, 1)), demand(spec)) is None


def test_a_constraint_applies_to_the_requests_that_it_names() -> None:
    spec = claim_spec(
        request("a", "gpu", "true", count=2),
        request("b"),
        constraints=[{"requests": ["a"], "matchAttribute": "gpu.example.com/numa"}],
    )

    assert names(search(books(*numa(0, 1, 0)), demand(spec))) == [["gpu-0", "gpu-2", "gpu-1"]]


def test_a_constraint_can_name_an_alternative() -> None:
    choice = alternatives("r", ("pair", request(count=2)), ("any", request("x", "gpu", "true", count=2)))
    spec = claim_spec(choice, constraints=[{"requests": ["r/pair"], "matchAttribute": "gpu.example.com/numa"}])

    picks = search(books(*numa(0, 1)), demand(spec))

    assert picks is not None
    assert {pick.alternative.name for pick in picks[0]} == {"r/any"}


def test_a_device_without_the_attribute_violates_a_constraint() -> None:
    spec = claim_spec(request(), constraints=[{"matchAttribute": "gpu.example.com/numa"}])

    assert search(books(*gpus(1)), demand(spec)) is None


def test_an_attribute_of_another_domain_is_found_by_its_full_name() -> None:
    spec = claim_spec(request(count=2), constraints=[{"matchAttribute": "pci.example.com/root"}])
    node = books(*(device(f"d{i}", {"pci.example.com/root": root}) for i, root in enumerate(["x", "y", "x"])))

    assert names(search(node, demand(spec))) == [["d0", "d2"]]


# --- taints ---
def test_a_tainted_device_is_allocated_only_to_requests_that_tolerate_the_taint() -> None:
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    node = books(device("bad", taints=[taint]), device("odd", taints=[{**taint, "effect": "None"}]))

    assert names(search(node, demand(claim_spec(request())))) == [["odd"]]
    assert search(node, demand(claim_spec(request(tolerations=[{"key": "broken", "value": "no"}])))) is None
    assert names(search(node, demand(claim_spec(request(tolerations=[{"key": "broken", "value": "yes"}]))))) == [
        ["bad"]
    ]


def test_a_toleration_without_a_key_tolerates_all_taints() -> None:
    taints = [{"key": k, "value": "v", "effect": e} for k, e in (("a", "NoSchedule"), ("b", "NoExecute"))]
    everything = demand(claim_spec(request(tolerations=[{"operator": "Exists"}])))

    assert names(search(books(device("bad", taints=taints)), everything)) == [["bad"]]


# --- administrator access ---
def test_administrator_access_selects_allocated_devices_and_takes_none() -> None:
    node = books(*gpus(1))
    search(node, demand(claim_spec(request())))
    observer = demand(claim_spec(request(adminAccess=True)))

    assert names(search(node, observer)) == [["gpu-0"]]
    assert names(search(node, observer)) == [["gpu-0"]]
    assert search(node, demand(claim_spec(request(adminAccess=True, count=2)))) is None


# --- shared devices ---
def nic(policy: Raw | None = None, value: str = "10G") -> Raw:
    capacity = {"bandwidth": {"value": value, **({"requestPolicy": policy} if policy else {})}}
    return device("nic", None, capacity, allowMultipleAllocations=True)


def share(amount: str) -> Raw:
    return claim_spec(request(capacity={"requests": {"bandwidth": amount}}))


def test_claims_share_a_device_until_its_capacity_is_used_up() -> None:
    node = books(nic())

    assert [search(node, demand(share("4G"))) is not None for _ in range(3)] == [True, True, False]
    assert search(node, demand(share("2G"))) is not None


def test_a_request_without_capacity_consumes_the_default_or_all_of_a_shared_device() -> None:
    node, plain = books(nic()), demand(claim_spec(request()))
    assert search(node, plain) is not None
    assert search(node, demand(share("1"))) is None

    node = books(nic({"default": "5G"}))
    assert [search(node, plain) is not None for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        ({"default": "1G", "validRange": {"min": "1G", "step": "1G"}}, "3500M", 4),
        ({"default": "1G", "validRange": {"min": "2G"}}, "500M", 2),
        ({"default": "1G", "validRange": {"min": "1G", "max": "3G"}}, "4G", None),
        ({"default": "1G", "validValues": ["1G", "4G", "8G"]}, "2G", 4),
        ({"default": "1G", "validValues": ["1G", "4G", "8G"]}, "9G", None),
    ],
)
def test_requested_capacity_is_rounded_up_to_a_valid_amount(policy: Raw, asked: str, consumed: int | None) -> None:
    picks = search(books(nic(policy)), demand(share(asked)))

    assert (picks and picks[0][0].consumed["bandwidth"]) == (consumed and consumed * 10**18)


def test_a_device_without_enough_of_the_requested_capacity_is_skipped() -> None:
    asks = demand(claim_spec(request(capacity={"requests": {"memory": "20Gi"}})))
    node = books(device("none"), device("small", None, {"memory": "10Gi"}), device("large", None, {"memory": "40Gi"}))

    assert names(search(node, asks)) == [["large"]]


# --- partitions ---
def partitions() -> Books:
    def part(name: str, memory: str) -> Raw:
        return device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}])

    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]
    return Books(
        inventory(
            [
                resource_slice(None, "n1", name="counters", count=2, sharedCounters=counters),
                resource_slice(
                    [part("whole", "80Gi"), *(part(f"half-{i}", "40Gi") for i in range(3))], "n1", name="parts", count=2
                ),
            ]
        )
    )


def test_partitions_use_the_shared_counters_of_their_device() -> None:
    node = partitions()
    half = demand(claim_spec(request("r", "gpu", 'device.driver == "gpu.example.com"')))
    assert names(search(node, half)) == [["whole"]]
    assert search(node, half) is None

    node = partitions()
    both = search(node, demand(claim_spec(request(count=2))))
    assert names(both) == [["half-0", "half-1"]]
    assert search(node, half) is None
    assert both is not None
    release(node, both)
    assert names(search(node, half)) == [["whole"]]


# --- errors and limits ---
def test_an_expression_that_fails_for_a_device_rejects_the_node_when_the_search_reaches_it() -> None:
    node = books(device("good", {"model": "a"}), device("bad", {"index": 1}))
    asks = demand(claim_spec(request("gpu", "gpu", 'device.attributes["gpu.example.com"].model == "a"')))

    assert names(search(node, asks)) == [["good"]]
    with pytest.raises(NodeRejectedError, match=r"claim c: selector #0: CEL runtime error: .*model"):
        search(node, asks)
    assert names(search(node, demand(claim_spec(request())))) == [["bad"]]


def test_an_expression_that_does_not_compile_rejects_all_nodes_with_devices() -> None:
    asks = demand(claim_spec(request("gpu", "gpu", "device.")))

    with pytest.raises(NodeRejectedError, match=r"claim c: selector #0: CEL compile error"):
        search(books(*gpus(1)), asks)


def test_a_claim_for_more_devices_than_its_status_can_list_is_rejected() -> None:
    asks = demand(claim_spec(request("a", "gpu", "true", count=20), request("b", count=20)))

    with pytest.raises(NodeRejectedError, match="number of requested devices 40 exceeds the claim limit of 32"):
        search(books(*gpus(64)), asks)


def test_an_alternative_that_would_exceed_the_limit_is_skipped() -> None:
    choice = alternatives("b", ("many", request(count=20)), ("few", request(count=4)))

    picks = search(books(*gpus(64)), demand(claim_spec(request("a", count=20), choice)))

    assert picks is not None
    assert len(picks[0]) == 24


def test_a_search_that_times_out_takes_no_devices() -> None:
    spec = claim_spec(request(count=12), constraints=[{"distinctAttribute": "gpu.example.com/numa"}])
    node = books(*numa(*(i % 11 for i in range(33))))

    with pytest.raises(NodeRejectedError, match=TIMED_OUT):
        search(node, demand(spec), choices=1000)
    assert names(search(node, demand(claim_spec(request())))) == [["gpu-0"]]
