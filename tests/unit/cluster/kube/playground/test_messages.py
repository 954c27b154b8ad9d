"""The messages of the kubelet's APIs, as they are on the wire."""

import pytest

from scheduler.cluster.kube.playground.device_plugin import messages


def text(field: int, value: str) -> bytes:
    """A field of the wire format with a text or a message."""
    return block(field, value.encode())


def block(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2, len(value)]) + value


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (
            messages.RegisterRequest(
                version="v1beta1", endpoint="a.sock", resource_name="x.com/y",
                options={"get_preferred_allocation_available": True},
            ),
            text(1, "v1beta1") + text(2, "a.sock") + text(3, "x.com/y") + block(4, b"\x10\x01"),
        ),
        (
            messages.ListAndWatchResponse(devices=[{"ID": "a-0", "health": "Healthy"}]),
            block(1, text(1, "a-0") + text(2, "Healthy")),
        ),
        (
            messages.PreferredAllocationRequest(
                container_requests=[
                    {"available_deviceIDs": ["a", "b"], "must_include_deviceIDs": ["b"], "allocation_size": 2}
                ]
            ),
            block(1, text(1, "a") + text(1, "b") + text(2, "b") + b"\x18\x02"),
        ),
        (messages.PreferredAllocationResponse(container_responses=[{"deviceIDs": ["a"]}]), block(1, text(1, "a"))),
        (messages.AllocateRequest(container_requests=[{"devices_ids": ["a"]}]), block(1, text(1, "a"))),
        (
            messages.AllocateResponse(container_responses=[{"envs": {"KEY": "1"}}]),
            block(1, block(1, text(1, "KEY") + text(2, "1"))),
        ),
        (messages.PreStartContainerRequest(devices_ids=["a"]), text(1, "a")),
        (
            messages.ListPodResourcesResponse(
                pod_resources=[
                    {
                        "name": "p", "namespace": "n",
                        "containers": [{"name": "c", "devices": [{"resource_name": "r", "device_ids": ["a"]}]}],
                    }
                ]
            ),
            block(
                1,
                text(1, "p") + text(2, "n") + block(3, text(1, "c") + block(2, text(1, "r") + text(2, "a"))),
            ),
        ),
    ],
)  # fmt: skip
def test_messages_have_the_field_numbers_of_the_kubelet(message: object, wire: bytes) -> None:
    assert message.SerializeToString() == wire  # type: ignore[attr-defined]


def test_fields_that_are_not_declared_are_skipped() -> None:
    """A kubelet also sends the topology of devices, CPUs and memory."""
    wire = block(1, text(1, "p") + block(3, text(1, "c") + b"\x18\x07" + block(4, text(1, "hugepages"))))
    (pod,) = messages.ListPodResourcesResponse.FromString(wire).pod_resources
    assert (pod.name, pod.containers[0].name) == ("p", "c")
