"""The defaults of a queue."""

from typing import Any

import pytest

from scheduler.api.kinds import QUEUE
from scheduler.webhooks.contract import AdmissionRequest, Operation
from scheduler.webhooks.routes import admit
from tests.unit.webhooks.clusters import ALL, VOLCANO, Cluster, created

HIERARCHY = {"volcano.sh/hierarchy": "sci/dev", "volcano.sh/hierarchy-weights": "2/3"}
BELOW_ROOT = {"volcano.sh/hierarchy": "root/sci/dev", "volcano.sh/hierarchy-weights": "1/2/3"}


def test_a_queue_defaults_to_reclaimable_and_weight_one() -> None:
    assert created(QUEUE, {"metadata": {"name": "b"}, "spec": {}}).object["spec"] == {"reclaimable": True, "weight": 1}
    given = {"weight": 5, "reclaimable": False}
    assert created(QUEUE, {"metadata": {"name": "e"}, "spec": given}).object["spec"] == given
    assert created(QUEUE, {"metadata": {"name": "b"}}).object["spec"] == {"reclaimable": True, "weight": 1}


def test_the_root_is_prepended_to_a_hierarchy() -> None:
    decision = created(QUEUE, {"metadata": {"name": "c", "annotations": HIERARCHY}, "spec": {"weight": 1}})
    assert decision.object["metadata"]["annotations"] == BELOW_ROOT
    again = created(QUEUE, decision.object)
    assert again.object == decision.object


def test_a_queue_that_is_updated_gets_no_defaults() -> None:
    queue = {"metadata": {"name": "a"}, "spec": {"weight": 1}}
    decision = admit(AdmissionRequest(Operation.UPDATE, QUEUE, "", "a", queue, queue), Cluster(), VOLCANO, ALL)
    assert decision.object == queue


def test_the_object_of_the_request_is_not_modified() -> None:
    sent: dict[str, Any] = {"metadata": {"name": "c", "annotations": dict(HIERARCHY)}, "spec": {}}
    created(QUEUE, sent)
    assert sent == {"metadata": {"name": "c", "annotations": HIERARCHY}, "spec": {}}


@pytest.mark.parametrize("spec", ["x", 3, [], {"weight": "many"}, {"capability": 3}])
def test_a_field_of_a_wrong_type_in_a_queue_is_refused_with_its_name(spec: Any) -> None:
    refusal = created(QUEUE, {"metadata": {"name": "a"}, "spec": spec}).refusal
    assert refusal == "" if spec == [] else refusal.startswith("spec")
