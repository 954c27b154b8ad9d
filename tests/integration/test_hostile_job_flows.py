"""A tenant with the ClusterRole `edit` in one namespace creates JobFlows with as many steps as fit into an object."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from controlplane.client import ApiError, Client
from controlplane.run import ControlPlane
from scheduler.api.batch import MAX_FLOW_STEPS
from tests.integration.crds import TASK
from tests.integration.rights import account
from tests.integration.stage import a_control_plane, running, wait
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

FLOWS = "/apis/flow.volcano.sh/v1alpha1"
BATCH = "/apis/batch.volcano.sh/v1alpha1"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobflows.flow.volcano.sh"
HOSTILE = 30_000


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A separate control plane, since the tests change a resource definition."""
    with a_control_plane() as made:
        directory = tmp_path_factory.mktemp("logs")
        with running("controllers", account(made, "controllers"), directory, "--leader-elect=false"):
            yield made


def namespace(admin: Client) -> str:
    name = f"t{uuid4().hex[:8]}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def flow(name: str, *steps: str) -> dict[str, Any]:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name},
        "spec": {"flows": [{"name": step} for step in steps]},
    }


def events(admin: Client, place: str, about: str) -> list[dict[str, Any]]:
    items = admin.get(f"/api/v1/namespaces/{place}/events")["items"]
    return [each for each in items if each["involvedObject"]["name"] == about]


def messages(admin: Client, place: str, about: str) -> list[str]:
    return [each["message"] for each in events(admin, place, about)]


@contextmanager
def limits(admin: Client, number: int) -> Iterator[None]:
    """Sets another limit of steps, such as that of Volcano's resource definition, which has no limit."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/flows/maxItems"

    def change(to: int) -> None:
        body = [{"op": "replace", "path": path, "value": to}]
        admin.request("PATCH", DEFINITION, body, "application/json-patch+json")

    change(number)
    try:
        yield
    finally:
        change(MAX_FLOW_STEPS)


def test_a_flow_of_30_000_steps_is_refused_with_the_limit(plane: ControlPlane) -> None:
    place = namespace(plane.admin)
    attacker = tenant(plane, place)
    with pytest.raises(ApiError, match=r"spec\.flows: Too many: 30000: must have at most 2000 items") as refused:
        attacker.create(f"{FLOWS}/namespaces/{place}/jobflows", flow("hostile", *map(str, range(HOSTILE))))
    assert refused.value.status == 422


def test_a_flow_whose_templates_are_missing_causes_one_event(plane: ControlPlane) -> None:
    place = namespace(plane.admin)
    attacker = tenant(plane, place)
    attacker.create(f"{FLOWS}/namespaces/{place}/jobflows", flow("hostile", *map(str, range(MAX_FLOW_STEPS))))
    (found,) = wait(lambda: messages(plane.admin, place, "hostile"))
    assert '2000 jobtemplates.flow.volcano.sh: "0", "1", "2", "3" and 1996 more not found' in found


def test_a_flow_whose_steps_wait_for_each_other_says_so_and_goes_on_when_it_is_mended(plane: ControlPlane) -> None:
    """No webhook runs, so the flow is stored."""
    admin, place = plane.admin, namespace(plane.admin)
    flows = f"{FLOWS}/namespaces/{place}/jobflows"
    body = flow("circle", "a", "b")
    for step, target in zip(body["spec"]["flows"], "ba", strict=True):
        step["dependsOn"] = {"targets": [target]}
    admin.create(flows, body)

    def state() -> dict[str, Any]:
        found: dict[str, Any] = admin.get(f"{flows}/circle").get("status", {}).get("state", {})
        return found

    text = "spec.flows: steps b, a wait for each other, so none of them can start"
    wait(lambda: state() == {"phase": "Pending", "message": text})
    wait(lambda: messages(admin, place, "circle") == [f"{text}; no more jobs are created"])

    admin.patch(f"{flows}/circle", {"spec": {"flows": [{"name": "a"}]}})
    missing = 'jobtemplate.flow.volcano.sh "a" not found'
    wait(lambda: state() == {"phase": "Pending", "message": missing})
    template = {"kind": "JobTemplate", "metadata": {"name": "a"}, "spec": {"tasks": [TASK]}}
    admin.create(f"{FLOWS}/namespaces/{place}/jobtemplates", {"apiVersion": "flow.volcano.sh/v1alpha1", **template})
    wait(lambda: admin.get(f"{BATCH}/namespaces/{place}/jobs")["items"])
    wait(lambda: state() == {"phase": "Pending"})
    # About the steps, the template, and the job that was created. Events are written after the status, at leisure.
    wait(lambda: len(events(admin, place, "circle")) == 3)


def test_a_stored_flow_of_30_000_steps_causes_one_event_delays_nobody_and_can_be_changed(plane: ControlPlane) -> None:
    admin, place, others = plane.admin, namespace(plane.admin), namespace(plane.admin)
    attacker = tenant(plane, place)
    hostile = f"{FLOWS}/namespaces/{place}/jobflows/hostile"
    body = flow("hostile", *map(str, range(HOSTILE)))

    def accepted() -> bool:
        """The API server takes a moment to use another resource definition."""
        try:
            attacker.create(hostile.rpartition("/")[0], body)
        except ApiError as error:
            assert error.status == 422
            return False
        return True

    with limits(admin, 100_000):
        wait(accepted)
        template = {"kind": "JobTemplate", "metadata": {"name": "a"}, "spec": {"tasks": [TASK]}}
        template["apiVersion"] = "flow.volcano.sh/v1alpha1"
        admin.create(f"{FLOWS}/namespaces/{others}/jobtemplates", template)
        admin.create(f"{FLOWS}/namespaces/{others}/jobflows", flow("f", "a"))
        wait(lambda: admin.get(f"{BATCH}/namespaces/{others}/jobs")["items"])
        text = "spec.flows: 30000 steps, at most 2000 are run for one flow; ignored"
        wait(lambda: messages(admin, place, "hostile") == [text])
    wait(lambda: refused_again(attacker, place))
    stored = attacker.patch(hostile, {"metadata": {"labels": {"team": "x"}, "finalizers": ["example.com/hold"]}})
    assert stored["metadata"]["labels"] == {"team": "x"}
    attacker.delete(hostile)
    attacker.patch(hostile, {"metadata": {"finalizers": None}})
    assert messages(admin, place, "hostile") == [text]


def refused_again(attacker: Client, place: str) -> bool:
    """Whether the API server uses the limit again."""
    try:
        body = flow("probe", *map(str, range(HOSTILE)))
        attacker.create(f"{FLOWS}/namespaces/{place}/jobflows?dryRun=All", body)
    except ApiError as error:
        return error.status == 422
    return False
