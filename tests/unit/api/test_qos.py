"""The QoS class of a Pod."""

from typing import Any

import pytest

from scheduler.api.objects import Container, PodSpec, ResourceRequirements
from scheduler.api.pod_amounts import Qos, qos_of


def resources(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> ResourceRequirements:
    return ResourceRequirements(requests=requests, limits=limits)


@pytest.mark.parametrize(
    ("containers", "level", "qos"),
    [
        ([None], None, Qos.BEST_EFFORT),
        ([resources({"example.com/gpu": 1}, {"example.com/gpu": 1})], None, Qos.BEST_EFFORT),
        ([resources({"cpu": "1"})], None, Qos.BURSTABLE),
        ([resources(None, {"cpu": "1", "memory": "1Gi"})], None, Qos.GUARANTEED),
        ([resources({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})], None, Qos.BURSTABLE),
        ([resources(None, {"cpu": "1", "memory": "1Gi"}), None], None, Qos.BURSTABLE),
        ([None], resources({"cpu": "1", "memory": "1"}, {"cpu": "1", "memory": "1"}), Qos.GUARANTEED),
        ([resources({"cpu": "?"})], None, Qos.BEST_EFFORT),
    ],
)
def test_the_qos_class_is_that_of_kubernetes(
    containers: list[ResourceRequirements | None], level: ResourceRequirements | None, qos: Qos
) -> None:
    spec = PodSpec(containers=[Container(resources=entry) for entry in containers], resources=level)
    assert qos_of(spec) is qos
