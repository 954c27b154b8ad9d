"""Runs last: the audit log of everything that the roles have requested in these tests."""

import pytest

from controlplane.node.cluster import Cluster

pytestmark = pytest.mark.node


def test_no_request_of_a_role_was_forbidden(cluster: Cluster) -> None:
    requests = cluster.requests()
    assert {account for account, *_ in requests} >= {f"volcano-py-{role}" for role in ("scheduler", "controllers")}
    assert [request for request in requests if request[-1] != "allow"] == []
