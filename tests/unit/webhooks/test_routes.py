"""The routes of the webhook server, and the webhook configurations of the API server."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler.api.kinds import CRON_JOB, HYPER_NODE, JOB_FLOW, POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.webhooks.contract import AdmissionRequest, Operation
from scheduler.webhooks.routes import (
    BINARY_DEFAULT,
    ServiceReference,
    admit,
    collection_of,
    configuration,
    name_of,
    routes,
)
from tests.examples import examples
from tests.unit.webhooks.clusters import ALL, VOLCANO, Cluster, queue

KINDS = (VCJOB, QUEUE, POD_GROUP, POD, CRON_JOB, JOB_FLOW, HYPER_NODE)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    (
        "metadata", "spec", "status", "annotations", "name", "queue", "parent", "weight", "capability", "cpu", "flows",
        "members", "schedule", "timeZone", "schedulerName", "dependsOn", "targets", "selector", "regexMatch", "pattern",
        "tolerations", "nodeSelector", "volcano.sh/card.quota", "volcano.sh/jdb-min-available", "volcano.sh/hierarchy",
        "volcano.sh/hierarchy-weights",
    )
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


@given(kind=st.sampled_from(KINDS), operation=st.sampled_from(Operation), obj=ANYTHING, old=ANYTHING)
@hypothesis_settings(max_examples=examples(250))
def test_an_object_of_any_shape_is_allowed_or_refused(kind: Kind, operation: Operation, obj: Any, old: Any) -> None:
    body = {"metadata": obj, "spec": obj} if not isinstance(obj, dict) else obj
    before = {"metadata": old, "spec": old} if not isinstance(old, dict) else old
    sent = json.dumps(body)
    decision = admit(AdmissionRequest(operation, kind, "default", "x", body, before), Cluster(queue("x")), VOLCANO, ALL)
    assert isinstance(decision.refusal, str)
    assert json.dumps(body) == sent


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    obj: dict[str, Any] = {}
    for _ in range(100_000):
        obj = {"spec": obj}
    request = AdmissionRequest(Operation.CREATE, JOB_FLOW, "default", "x", {"metadata": {"name": "x"}, "spec": obj})
    assert admit(request, Cluster(), VOLCANO, ALL).refusal == "the object is nested too deeply"


def test_only_enabled_webhooks_are_called() -> None:
    request = AdmissionRequest(Operation.CREATE, QUEUE, "", "q", {"metadata": {"name": "q"}, "spec": {"parent": "q"}})
    assert admit(request, Cluster(), VOLCANO, ()).object == request.object
    decision = admit(request, Cluster(), VOLCANO, {"/queues/mutate"})
    assert (decision.refusal, decision.object["spec"]["weight"]) == ("", 1)
    decision = admit(request, Cluster(), VOLCANO, ALL)
    assert (decision.webhook, decision.refusal) == (
        "validatequeue.volcano.sh",
        "queue q cannot use itself as parent",
    )


def test_the_default_paths_exist() -> None:
    assert set(BINARY_DEFAULT) <= routes().keys()


def test_a_configuration_calls_one_path_through_a_service() -> None:
    route = routes()["/queues/validate"]
    assert (collection_of(route), name_of(route)) == (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "volcano-admission-service-queues-validate",
    )
    assert configuration(route, ServiceReference("volcano-system", "admission"), "Q0E=", "volcano-system") == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "volcano-admission-service-queues-validate"},
        "webhooks": [
            {
                "name": "validatequeue.volcano.sh",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "namespace": "volcano-system",
                        "name": "admission",
                        "path": "/queues/validate",
                        "port": 443,
                    },
                    "caBundle": "Q0E=",
                },
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "apiGroups": ["scheduling.volcano.sh"],
                        "apiVersions": ["v1beta1"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["queues"],
                        "scope": "*",
                    }
                ],
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": 10,
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["volcano-system", "kube-system"],
                        }
                    ]
                },
            }
        ],
    }


def test_a_configuration_may_use_a_url_and_hyper_nodes_have_no_selector() -> None:
    (webhook,) = configuration(routes()["/hypernodes/validate"], "https://10.0.0.1:8443/", "Q0E=", "x")["webhooks"]
    assert webhook["clientConfig"]["url"] == "https://10.0.0.1:8443/hypernodes/validate"
    assert "namespaceSelector" not in webhook


@pytest.mark.parametrize("path", sorted(ALL))
def test_each_webhook_either_mutates_or_validates(path: str) -> None:
    route = routes()[path]
    assert (route.mutate is None) is (path.endswith("/validate"))
    assert (route.validate is None) is (path.endswith("/mutate"))
