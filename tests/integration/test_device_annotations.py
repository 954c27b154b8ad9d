"""Tenants write annotations with chips to their Pods: no chip is given to a second Pod because of them.

A tenant has the permissions of the ClusterRole `edit` in one namespace. Each attack is tried on a server without the
chart's policy, where the scheduler alone prevents it, and is refused on a server with the policy.
"""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane import manifests
from controlplane.client import ApiError
from controlplane.manifests import NAMESPACE
from controlplane.run import ControlPlane
from scheduler.api.names import (
    ASCEND_910,
    ASCEND_REAL,
    BINDING_RECORD,
    CARD_NAME,
    EVENT_DEVICES_DISAGREE,
    PREDICATE_TIME,
    SCHEDULE_POLICY,
    SIGNING_KEY_SECRET,
)
from tests.integration.stage import Namespace, Role, client_of, emptied, wait
from tests.integration.tenant import EDIT, may, tenant, tenant_user

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LOWER, UPPER = ([f"Ascend910-{chip}" for chip in chips] for chips in (range(4), range(4, 8)))
SECRET = "signing-key"


class Tenant(Namespace):
    """A namespace and a user who may edit it; the user creates and changes Pods."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.tenant = tenant(plane, self.name)

    def submit(self, name: str, asks: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> None:
        """A Pod in a PodGroup of its own."""
        self.group(name, 1)
        admin, self.api = self.api, self.tenant
        try:
            self.pod(name, name, {"cpu": "1", **asks}, annotations, nodeSelector={})
        finally:
            self.api = admin

    def annotate(self, pod: str, **annotations: str | None) -> None:
        self.tenant.patch(f"{self.path}/pods/{pod}", {"metadata": {"annotations": annotations}})

    def chips(self, pod: str) -> list[str]:
        """The chips of a Pod that is bound; empty while it waits."""
        found = self.api.get(f"{self.path}/pods/{pod}")
        listed = found["metadata"]["annotations"].get(ASCEND_910, "") if found["spec"].get("nodeName") else ""
        return [chip for chip in listed.split(",") if chip]

    def given(self, pod: str) -> list[str]:
        chips: list[str] = self.wait(lambda: self.chips(pod))
        return chips

    def waits(self, pod: str) -> bool:
        """Whether the scheduler has said that it has no place for a Pod."""
        self.wait(lambda: self.condition(pod)["reason"])
        return pod not in self.bound()

    def warning(self, pod: str) -> str:
        def found() -> str:
            return next(
                (
                    event["message"]
                    for event in self.events()
                    if (event["involvedObject"]["name"], event["reason"], event["type"])
                    == (pod, EVENT_DEVICES_DISAGREE, "Warning")
                ),
                "",
            )

        text: str = self.wait(found)
        return text


@pytest.fixture
def attacker(control_plane: ControlPlane) -> Tenant:
    emptied(control_plane)
    tenant = Tenant(control_plane)
    tenant.node("npu", **{ASCEND_910: "8"})
    # Bindings have been signed for a long time: a Pod without a record is suspicious.
    data = {"key": b"k" * 32, "in-use-since": b"1000"}
    secret = {"metadata": {"name": SECRET}, "data": {k: base64.b64encode(v).decode() for k, v in data.items()}}
    tenant.api.create(f"{tenant.path}/secrets", secret)
    return tenant


@pytest.fixture
def victim(control_plane: ControlPlane, attacker: Tenant) -> Tenant:
    return Tenant(control_plane)


@contextmanager
def scheduling(tenant: Tenant, directory: Path) -> Iterator[Role]:
    secret = f"--signing-key-secret={tenant.name}/{SECRET}"
    with tenant.scheduled(directory, secret, kubeconfig=tenant.plane.kubeconfig) as role:
        yield role


FOUR = {ASCEND_910: "4"}


# --- without the policy ---
def test_a_preset_list_of_mounted_chips_does_not_hide_those_that_are_given(
    attacker: Tenant, victim: Tenant, tmp_path: Path
) -> None:
    attacker.submit("a", FOUR, {ASCEND_REAL: ",".join(UPPER)})
    with scheduling(attacker, tmp_path):
        assert attacker.given("a") == LOWER
        victim.submit("b", FOUR)
        assert victim.waits("b"), "neither the chips given nor those claimed are another's"
        assert "asked for 4 huawei.com/Ascend910" in attacker.warning("a")
        attacker.tenant.delete(f"{attacker.path}/pods/a?gracePeriodSeconds=0")
        assert victim.given("b") == LOWER


def test_a_list_rewritten_after_the_binding_frees_no_chip(attacker: Tenant, victim: Tenant, tmp_path: Path) -> None:
    attacker.submit("a", FOUR)
    with scheduling(attacker, tmp_path):
        assert attacker.given("a") == LOWER
        attacker.annotate("a", **{ASCEND_910: ",".join(UPPER)})
        warning = attacker.warning("a")
        assert f"with {','.join(LOWER)}, annotated with {','.join(UPPER)}" in warning
        victim.submit("b", FOUR)
        assert victim.waits("b")


def test_a_list_removed_after_the_binding_frees_no_chip(attacker: Tenant, victim: Tenant, tmp_path: Path) -> None:
    attacker.submit("a", FOUR)
    with scheduling(attacker, tmp_path):
        assert attacker.given("a") == LOWER
        attacker.annotate("a", **{ASCEND_910: None, BINDING_RECORD: None, PREDICATE_TIME: None})
        attacker.warning("a")
        victim.submit("b", FOUR)
        assert victim.given("b") == UPPER


def test_a_pod_without_chips_that_lists_eight_blocks_no_node(attacker: Tenant, victim: Tenant, tmp_path: Path) -> None:
    attacker.submit("a", {}, {ASCEND_910: ",".join(LOWER + UPPER)})
    with scheduling(attacker, tmp_path):
        attacker.wait(lambda: "a" in attacker.bound())
        assert "asked for 0 huawei.com/Ascend910; names 8 chips" in attacker.warning("a")
        victim.submit("b", {ASCEND_910: "8"})
        assert victim.given("b") == LOWER + UPPER


# --- after a restart of the scheduler ---
def restarted(attacker: Tenant, directory: Path, **annotations: str | None) -> None:
    """A Pod with chips is bound, the scheduler stops, and the Pod is changed before another scheduler starts."""
    attacker.submit("a", FOUR)
    with scheduling(attacker, directory):
        assert attacker.given("a") == LOWER
    attacker.annotate("a", **annotations)


def test_a_list_rewritten_before_a_restart_frees_no_chip(attacker: Tenant, victim: Tenant, tmp_path: Path) -> None:
    restarted(attacker, tmp_path, **{ASCEND_910: ",".join(UPPER)})
    with scheduling(attacker, tmp_path):
        attacker.warning("a")
        victim.submit("b", FOUR)
        assert victim.waits("b")


def test_a_list_removed_before_a_restart_frees_no_chip(attacker: Tenant, victim: Tenant, tmp_path: Path) -> None:
    restarted(attacker, tmp_path, **{ASCEND_910: None})
    with scheduling(attacker, tmp_path):
        victim.submit("b", FOUR)
        assert victim.given("b") == UPPER


@pytest.mark.parametrize("record", [None, "{}"], ids=["removed", "forged"])
def test_without_the_signed_record_a_restarted_scheduler_trusts_only_the_device_plugin(
    record: str | None, attacker: Tenant, victim: Tenant, tmp_path: Path
) -> None:
    restarted(attacker, tmp_path, **{ASCEND_910: ",".join(UPPER), BINDING_RECORD: record})
    with scheduling(attacker, tmp_path):
        assert "no record that the scheduler signed" in attacker.warning("a")
        victim.submit("b", FOUR)
        assert victim.waits("b")
        devices = {"DeviceInfo": {"DeviceList": {ASCEND_910: ",".join(UPPER)}, "UpdateTime": int(time.time()) + 60}}
        name = f"mindx-dl-deviceinfo-{attacker.name}-npu"
        published = {"metadata": {"name": name}, "data": {"DeviceInfoCfg": json.dumps(devices)}}
        attacker.api.create("/api/v1/namespaces/kube-system/configmaps", published)
        try:
            assert victim.given("b") == UPPER
        finally:
            attacker.api.delete(f"/api/v1/namespaces/kube-system/configmaps/{name}")


# --- with the policy ---
@pytest.fixture(scope="module")
def policy(control_plane: ControlPlane) -> Iterator[None]:
    """The chart's policy in force. It is applied once: the API server enforces a policy for a moment after its
    deletion, so a test could not see whether the next one is in force."""
    text = manifests.template(control_plane.binaries / "helm", "--show-only=templates/device-annotations.yaml")
    admin = control_plane.admin
    for path, name in (
        ("/api/v1/namespaces", NAMESPACE),
        (f"/api/v1/namespaces/{NAMESPACE}/secrets", SIGNING_KEY_SECRET),
    ):
        try:
            admin.create(path, {"metadata": {"name": name}})
        except ApiError as error:
            assert error.status == 409
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    probe = {
        "metadata": {"name": "probe", "annotations": {ASCEND_REAL: "x"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:1"}]},
    }
    tenant = Tenant(control_plane)

    def in_force() -> bool:
        try:
            tenant.tenant.create(f"{tenant.path}/pods?dryRun=All", probe)
        except ApiError as error:
            return error.status == 403
        return False

    wait(in_force)
    yield
    control_plane.kubectl("delete", "-f", "-", stdin=text)


@pytest.mark.usefixtures("policy")
@pytest.mark.parametrize("key", [ASCEND_910, ASCEND_REAL, BINDING_RECORD, "hami.io/Ascend910B2-devices-allocated"])
def test_presetting_an_annotation_of_devices_is_refused_by_name(key: str, attacker: Tenant) -> None:
    with pytest.raises(ApiError, match="annotations that only the scheduler and device plugins write") as refusal:
        attacker.submit("a", FOUR, {key: ",".join(UPPER)})
    assert refusal.value.status == 403
    assert key in str(refusal.value) and tenant_user(attacker.name) in str(refusal.value)


@pytest.mark.usefixtures("policy")
def test_users_may_not_change_annotations_of_the_scheduler_but_may_change_their_own(
    control_plane: ControlPlane, attacker: Tenant, tmp_path: Path
) -> None:
    attacker.submit("a", FOUR, {CARD_NAME: "Ascend-910B", "example.com/mine": "1"})
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SIGNING_KEY_SECRET}"
    with attacker.scheduled(tmp_path) as role:
        assert attacker.given("a") == LOWER
        data = wait(lambda: attacker.api.get(secret).get("data", {}))
    assert data.keys() == {"key", "in-use-since"}
    assert data["key"] not in role.log.read_text(encoding="utf-8")
    for changed in ({ASCEND_910: ",".join(UPPER)}, {ASCEND_910: None}, {BINDING_RECORD: None}, {PREDICATE_TIME: "1"}):
        with pytest.raises(ApiError) as refusal:
            attacker.annotate("a", **changed)
        assert refusal.value.status == 403
    attacker.annotate("a", **{"example.com/mine": "2", CARD_NAME: None, SCHEDULE_POLICY: "chip8-node8"})
    attacker.tenant.patch(f"{attacker.path}/pods/a", {"metadata": {"labels": {"changed": "yes"}}})
    assert attacker.chips("a") == LOWER


@pytest.mark.usefixtures("policy")
def test_a_device_plugin_with_the_right_may_annotate_what_it_mounted(
    control_plane: ControlPlane, attacker: Tenant
) -> None:
    attacker.submit("a", FOUR)
    path = f"{attacker.path}/pods/a"
    mounted: dict[str, Any] = {"metadata": {"annotations": {ASCEND_REAL: ",".join(LOWER)}}}
    for name in ("ascend-device-plugin-sa-910", "another-user"):
        user = f"system:serviceaccount:kube-system:{name}"
        attacker.api.create(
            f"{RBAC}/namespaces/{attacker.name}/rolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": EDIT[0]},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            },
        )
        plugin = client_of(control_plane, user)
        wait(lambda plugin=plugin: may(plugin, attacker.name, "patch", "", "pods"))  # type: ignore[misc]
        if name == "another-user":
            with pytest.raises(ApiError, match="device"):
                plugin.patch(path, {"metadata": {"annotations": {ASCEND_REAL: None}}})
        else:
            plugin.patch(path, mounted)
    assert attacker.api.get(path)["metadata"]["annotations"][ASCEND_REAL] == ",".join(LOWER)
