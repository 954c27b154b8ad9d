"""Short builders of AscendJobs."""

from typing import Any

import msgspec

from scheduler.api.acjob import AscendJob

Raw = dict[str, Any]


def role(replicas: int | None = 1, chips: int = 8, *, resource: str = "huawei.com/Ascend910", **spec: Any) -> Raw:
    """A replica spec; ``spec``: of the Pods."""
    amounts = {"cpu": "1"} | ({resource: str(chips)} if chips else {})
    container = {"name": "ascend", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    found: Raw = {"template": {"metadata": {"labels": {"mine": "yes"}}, "spec": {"containers": [container], **spec}}}
    return found if replicas is None else found | {"replicas": replicas}


def acjob(
    roles: dict[str, Raw],
    framework: str = "pytorch",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    run_policy: Raw | None = None,
    **spec: Any,
) -> Raw:
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {
            "name": "train",
            "namespace": "default",
            "uid": "uid-train",
            "labels": {"framework": framework} | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"replicaSpecs": roles, "runPolicy": run_policy or {}, "schedulerName": "volcano", **spec},
    }


def decoded(raw: Raw) -> AscendJob:
    return msgspec.convert(raw, AscendJob)
