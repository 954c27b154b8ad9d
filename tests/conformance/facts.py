"""The facts about the objects on a control plane, in the form of the records in ``expected.json``.

Values that differ in each run are replaced: ``<uid:NAME>`` stands for the UID of the object of that name, ``<0>``,
``<1>``, ... for random suffixes of the names of Pods with the same ``generateName``.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.api.kinds import (
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    NETWORK_POLICY,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    VCJOB,
    Kind,
)
from scheduler.api.names import GROUP_NAME

Raw = dict[str, Any]

# The conditions that a kubelet reports, and the one that is recorded as `scheduled`.
_KUBELETS = {"PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"}


def facts(listed: Callable[[Kind], list[Raw]]) -> Raw:
    """The facts about all objects; ``listed`` returns the objects of a kind."""
    objects = {section: listed(kind) for section, (kind, _) in _FACTS_OF.items()}
    found: Raw = {
        section: {key_of(each): _FACTS_OF[section][1](each) for each in objects[section]} for section in objects
    }
    found["events"] = _events(listed(EVENT))
    return _scrubbed(found, [each for items in objects.values() for each in items])


def key_of(item: Mapping[str, Any]) -> str:
    """The namespace and name of an object; only the name for cluster-scoped objects."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _pod(pod: Raw) -> Raw:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    scheduled = conditions.get("PodScheduled")
    fact: Raw = {
        "phase": status.get("phase"),
        "deleted": "deletionTimestamp" in meta,
        "scheduled": scheduled and {name: scheduled.get(name) for name in ("status", "reason", "message")},
        "nominatedNodeName": status.get("nominatedNodeName"),
        "conditions": {
            kind: {name: each[name] for name in ("status", "reason", "message") if each.get(name)}
            for kind, each in conditions.items()
            if kind not in _KUBELETS
        },
        "group": (meta.get("annotations") or {}).get(GROUP_NAME),
    }
    if spec.get("schedulingGates"):
        fact["schedulingGates"] = [gate["name"] for gate in spec["schedulingGates"]]
    if owners := _owners(pod):
        plain = ("hostname", "subdomain", "schedulerName", "priorityClassName", "nodeSelector", "restartPolicy")
        fact |= {name: spec.get(name) for name in (*plain, "tolerations")}
        fact |= {name: meta.get(name) for name in ("labels", "annotations")}
        fact |= {name: [_container(each) for each in spec.get(name, [])] for name in ("containers", "initContainers")}
        fact |= {"owners": owners, "volumes": spec.get("volumes", [])}
    return fact


def _container(container: Raw) -> Raw:
    env = {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", [])}
    plain = {name: container.get(name) for name in ("name", "ports", "volumeMounts", "command", "args")}
    return {**plain, "env": env}


def _group(group: Raw) -> Raw:
    status, meta = group.get("status") or {}, group["metadata"]
    conditions = [
        {name: each.get(name) for name in ("type", "status", "reason", "message")}
        for each in status.get("conditions") or []
    ]
    fact = {"phase": status.get("phase"), "spec": group.get("spec"), "owners": _owners(group), "conditions": conditions}
    fact |= {name: status[name] for name in ("running", "succeeded", "failed") if name in status}
    return fact | {name: meta.get(name) for name in ("annotations", "labels")}


def _job(job: Raw) -> Raw:
    status = dict(job.get("status") or {})
    state = status.pop("state", {})
    conditions = [each.get("status") for each in status.pop("conditions", None) or []]
    status.pop("runningDuration", None)
    fact = {name: state.get(name) for name in ("phase", "reason", "message")}
    return fact | {"conditions": conditions, "status": status, "spec": job["spec"]}


def _queue(queue: Raw) -> Raw:
    annotations = queue["metadata"].get("annotations")
    return {"status": queue.get("status"), "spec": queue.get("spec"), "annotations": annotations}


def _service(service: Raw) -> Raw:
    names = ("clusterIP", "selector", "ports", "publishNotReadyAddresses")
    spec = {name: service["spec"].get(name) for name in names}
    return {"spec": spec, "owners": _owners(service), "labels": service["metadata"].get("labels")}


def _config_map(found: Raw) -> Raw:
    return {"data": found.get("data"), "owners": _owners(found), "labels": found["metadata"].get("labels")}


def _secret(secret: Raw) -> Raw:
    return {"type": secret.get("type"), "keys": sorted(secret.get("data", {})), "owners": _owners(secret)}


def _claim(claim: Raw) -> Raw:
    fact = {"phase": claim.get("status", {}).get("phase"), "spec": claim.get("spec"), "owners": _owners(claim)}
    return {**fact, "annotations": claim["metadata"].get("annotations")}


def _network_policy(policy: Raw) -> Raw:
    return {"spec": policy.get("spec"), "owners": _owners(policy)}


def _deployment(deployment: Raw) -> Raw:
    status = deployment.get("status", {})
    return {name: status.get(name) for name in ("replicas", "readyReplicas", "unavailableReplicas")}


# The facts about the objects of each kind, by section of the record.
_FACTS_OF: dict[str, tuple[Kind, Callable[[Raw], Raw]]] = {
    "pods": (POD, _pod),
    "podgroups": (POD_GROUP, _group),
    "queues": (QUEUE, _queue),
    "jobs": (VCJOB, _job),
    "services": (SERVICE, _service),
    "configmaps": (CONFIG_MAP, _config_map),
    "secrets": (SECRET, _secret),
    "pvcs": (CLAIM, _claim),
    "networkpolicies": (NETWORK_POLICY, _network_policy),
    "deployments": (DEPLOYMENT, _deployment),
}
SECTIONS = tuple(_FACTS_OF)


def _owners(item: Raw) -> list[str]:
    return [f"{owner['kind']}/{owner['name']}" for owner in item["metadata"].get("ownerReferences", [])]


def _events(events: list[Raw]) -> list[list[str]]:
    return [
        [*(str(event["involvedObject"][name]) for name in ("kind", "name"))]
        + [str(event.get(name)) for name in ("type", "reason", "message")]
        for event in events
    ]


def _scrubbed(fact: Raw, objects: list[Raw]) -> Raw:
    text = json.dumps(fact)
    namesakes: dict[str, list[str]] = {}
    for each in objects:
        meta = each["metadata"]
        if stem := meta.get("generateName"):
            namesakes.setdefault(stem, []).append(meta["name"])
        text = text.replace(meta["uid"], f"<uid:{meta['name']}>")
    for stem, names in namesakes.items():
        for i, name in enumerate(sorted(names)):
            text = text.replace(name, f"{stem}<{i}>")
    # UIDs of deleted objects, or of kinds that are not recorded.
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>", text)
    scrubbed: Raw = json.loads(text)
    return scrubbed
