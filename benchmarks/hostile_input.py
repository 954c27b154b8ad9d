"""Measures the costs of the largest objects of a tenant for a session, in memory, on a cluster with running Pods.

Each attack consists of objects that an API server accepts from a user with the ClusterRole ``edit`` in one namespace.
They are decoded and stored in the cache as from a watch. Then a Pod of another tenant arrives, and a session places
it; further Pods follow while the attack still waits. Times are processor times; each attack is measured in its own
process. Prints the table of docs/hostile-input.md; asserts nothing.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.kinds import find_kind
from scheduler.api.names import GROUP_NAME
from scheduler.cache import ClusterCache
from scheduler.cli.process import COLLECTION
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import run_cycle

Raw = dict[str, Any]
NODES: Final = 500
CARDS: Final = "volcano.sh/card.request"
CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
  - {name: task-topology}
  - {name: numa-aware}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
  - {name: ascend}
  - {name: resourcequota}
"""
EVIL: Final = "attacker"
LITERALS: Final = f"[{','.join(map(str, range(20)))}]"
CREATED: Final = "2026-01-01T00:00:00Z"


def pod(name: str, namespace: str = EVIL, *, on: str = "", meta: Raw | None = None, **spec: Any) -> Raw:
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    about = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "creationTimestamp": CREATED}
    annotations = {GROUP_NAME: name, **((meta or {}).get("annotations") or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**about, **(meta or {}), "annotations": annotations},
        "spec": {"schedulerName": "volcano-py", "containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def group(name: str, namespace: str = EVIL, *, running: bool = False, **spec: Any) -> Raw:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"g-{namespace}-{name}",
            "creationTimestamp": CREATED,
        },
        "spec": {"minMember": 1, "queue": "default", **spec},
        "status": {"phase": "Running" if running else ("Inqueue" if namespace == EVIL else "Pending")},
    }


def alone(name: str = "evil", **spec: Any) -> list[Raw]:
    return [group(name), pod(name, **spec)]


def term(number: int) -> Raw:
    return {"key": f"k{number}", "operator": "NotIn", "values": [f"v{number}"]}


def affinity(kind: str, terms: Iterable[Raw], *, preferred: bool = False) -> Raw:
    key = (
        "preferredDuringSchedulingIgnoredDuringExecution"
        if preferred
        else "requiredDuringSchedulingIgnoredDuringExecution"
    )
    listed: Any = list(terms)
    if kind == "nodeAffinity" and not preferred:
        listed = {"nodeSelectorTerms": listed}
    return {"affinity": {kind: {key: listed}}}


def pod_terms(number: int, **more: Any) -> list[Raw]:
    return [
        {"topologyKey": f"zone-{i}", "labelSelector": {"matchExpressions": [term(i)]}, **more} for i in range(number)
    ]


def one_term(**more: Any) -> list[Raw]:
    return [{"topologyKey": "kubernetes.io/hostname", **more}]


def many(number: int, make: Callable[[int], Raw]) -> list[Raw]:
    """This number of Pods, each different."""
    found = []
    for i in range(number):
        name = f"evil-{i}"
        found += [group(name), pod(name, **make(i))]
    return found


def named(kind: str, version: str, name: str, spec: Raw) -> Raw:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": EVIL, "uid": f"{kind}-{name}", "creationTimestamp": CREATED},
        "spec": spec,
    }


def selecting_services(number: int, keys: int) -> list[Raw]:
    return [
        named("Service", "v1", f"s{i}", {"selector": {f"k{i}-{j}": "v" for j in range(keys)}}) for i in range(number)
    ]


def requests(amounts: Raw) -> Raw:
    return {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}


def claims(expressions: int, devices: int = 128) -> list[Raw]:
    def text(number: int) -> str:
        loops = f"{LITERALS}.all(a, {LITERALS}.all(b, {LITERALS}.all(c, a + b + c + {number} >= 0)))"
        return f'{loops} && device.attributes["d"].serial >= 0'

    made = [
        {
            "name": f"r{i}",
            "exactly": {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": text(32 * i + j)}} for j in range(32)],
            },
        }
        for i in range(expressions // 32)
    ]
    listed = [{"name": f"d{i}", "attributes": {"d/serial": {"int": i}}} for i in range(devices)]
    pool = {"name": "node-00000", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "node-00000", "pool": pool, "devices": listed}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
        named("ResourceClaim", "resource.k8s.io/v1", "c", {"devices": {"requests": made}}),
        *alone(resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
    ]


def volume_claims(number: int) -> list[Raw]:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(number)]
    selector = {"matchExpressions": [term(i) for i in range(1000)]}
    spec = {"storageClassName": "none", "selector": selector, "resources": {"requests": {"storage": "1Gi"}}}
    return [*(named("PersistentVolumeClaim", "v1", f"c{i}", spec) for i in range(number)), *alone(volumes=volumes)]


ATTACKS: Final[dict[str, Callable[[], list[Raw]]]] = {
    "nothing": list,
    "a Pod with 10,000 labels": lambda: alone(meta={"labels": {f"k{i}": f"v{i}" for i in range(10_000)}}),
    "256 KiB in each annotation that is read, not JSON": lambda: many(
        4,
        lambda i: {
            "meta": {
                "annotations": {
                    (
                        CARDS,
                        "huawei.com/schedule_minAvailable",
                        "sla-waiting-time",
                        "volcano.sh/task-topology-affinity",
                    )[i]: "[" * 250_000
                }
            }
        },
    ),
    "256 KiB of JSON in an annotation": lambda: alone(
        meta={"annotations": {CARDS: json.dumps({f"card-{i}": 1 for i in range(15_000)})}}
    ),
    "5,000 tolerations": lambda: alone(
        tolerations=[{"key": f"k{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(5_000)]
    ),
    "node selector of 5,000 labels": lambda: alone(nodeSelector={f"k{i}": "v" for i in range(5_000)}),
    "node affinity of 5,000 terms": lambda: alone(
        **affinity("nodeAffinity", ({"matchExpressions": [term(i)]} for i in range(5_000)))
    ),
    "node affinity of 1 term with 10,000 expressions": lambda: alone(
        **affinity("nodeAffinity", [{"matchExpressions": [term(i) for i in range(10_000)]}])
    ),
    "node affinity with 50,000 values": lambda: alone(
        **affinity(
            "nodeAffinity",
            [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"v{i}" for i in range(50_000)]}]}],
        )
    ),
    "preferred node affinity of 5,000 terms": lambda: alone(
        **affinity(
            "nodeAffinity",
            ({"weight": 1, "preference": {"matchExpressions": [term(i)]}} for i in range(5_000)),
            preferred=True,
        )
    ),
    "Pod affinity whose selector has 10,000 terms": lambda: alone(
        **affinity("podAffinity", one_term(labelSelector={"matchExpressions": [term(i) for i in range(10_000)]}))
    ),
    "Pod anti-affinity of 2,000 terms": lambda: alone(**affinity("podAntiAffinity", pod_terms(2_000))),
    "the same, on a running Pod": lambda: [
        group("evil", running=True),
        pod("evil", on="node-00001", **affinity("podAntiAffinity", pod_terms(2_000))),
    ],
    "preferred Pod affinity of 2,000 terms": lambda: alone(
        **affinity("podAffinity", ({"weight": 1, "podAffinityTerm": each} for each in pod_terms(2_000)), preferred=True)
    ),
    "the same on a running Pod, preferred": lambda: [
        group("evil", running=True),
        pod(
            "evil",
            on="node-00001",
            **affinity(
                "podAffinity", ({"weight": 1, "podAffinityTerm": each} for each in pod_terms(2_000)), preferred=True
            ),
        ),
    ],
    "Pod affinity with 10,000 namespaces": lambda: alone(
        **affinity("podAffinity", one_term(labelSelector={}, namespaces=[f"n{i}" for i in range(10_000)]))
    ),
    "Pod affinity with a namespace selector of 10,000 terms": lambda: alone(
        **affinity(
            "podAffinity",
            one_term(labelSelector={}, namespaceSelector={"matchExpressions": [term(i) for i in range(10_000)]}),
        )
    ),
    "500 topology constraints": lambda: alone(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": f"zone-{i}" if i else "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [term(i)]},
            }
            for i in range(500)
        ]
    ),
    "500 topology constraints over existing labels": lambda: alone(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": f"label-{i % 20}",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [term(i)]},
            }
            for i in range(500)
        ]
    ),
    "64 volumes, each claim with a selector of 1,000 terms": lambda: volume_claims(64),
    "1,000 volumes whose claims do not exist": lambda: alone(
        volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(1_000)]
    ),
    "5,000 host ports": lambda: alone(
        containers=[{"name": "m", "ports": [{"containerPort": i + 1, "hostPort": i + 1} for i in range(5_000)]}]
    ),
    "2,000 containers": lambda: alone(
        containers=[{"name": f"c{i}", "resources": {"requests": {"cpu": "1m"}}} for i in range(2_000)]
    ),
    "2,000 resources that no node has": lambda: alone(**requests({f"example.com/r{i}": "1" for i in range(2_000)})),
    "20 Pods, each with 500 resources of its own": lambda: many(
        20, lambda i: requests({f"example.com/r{i}-{j}": "1" for j in range(500)})
    ),
    "the largest quantities": lambda: alone(
        **requests({"cpu": "9223372036854775807", "memory": "9223372036854775807Ei"})
    ),
    "a gang of 10^9": lambda: [
        group("evil", minMember=10**9, minTaskMember={f"t{i}": 10**9 for i in range(1_000)}),
        pod("evil"),
    ],
    "minResources of 2,000 resources": lambda: [
        group("evil", minResources={f"example.com/r{i}": "1" for i in range(2_000)}),
        pod("evil"),
    ],
    "1,000 Services whose selectors have 10 labels": lambda: [*selecting_services(1_000, 10), *alone()],
    "1,000 labels of its own for each of 20 Services": lambda: [*selecting_services(20, 1_000), *alone()],
    "a disruption budget whose selector has 10,000 terms": lambda: [
        named(
            "PodDisruptionBudget",
            "policy/v1",
            "b",
            {"minAvailable": 1, "selector": {"matchExpressions": [term(i) for i in range(10_000)]}},
        ),
        *alone(),
    ],
    "1,000 disruption budgets of 100 terms": lambda: [
        *(
            named(
                "PodDisruptionBudget",
                "policy/v1",
                f"b{i}",
                {"minAvailable": 1, "selector": {"matchExpressions": [term(j) for j in range(100)]}},
            )
            for i in range(1_000)
        ),
        *alone(),
    ],
    "2,000 Pods, each with a request of its own": lambda: many(
        2_000, lambda i: requests({"cpu": f"{1000 + i}m", "memory": "9999Gi"})
    ),
    "2,000 such Pods in one PodGroup": lambda: [
        group("evil"),
        *(
            pod(
                f"evil-{i}",
                meta={"annotations": {GROUP_NAME: "evil"}},
                **requests({"cpu": f"{1000 + i}m", "memory": "9999Gi"}),
            )
            for i in range(2_000)
        ),
    ],
    "20 gangs of 100 different Pods, of which 97 fit and 98 are needed": lambda: [
        made
        for i in range(20)
        for made in (
            group(f"evil-{i}", minMember=98),
            *(
                pod(
                    f"evil-{i}-{j}",
                    meta={"annotations": {GROUP_NAME: f"evil-{i}"}},
                    **requests({"cpu": f"{100 + i * 100 + j}m", "memory": "1Gi" if j < 97 else "9999Gi"}),
                )
                for j in range(100)
            ),
        )
    ],
    "1,000 gangs of a Pod that fits and one that does not, all different": lambda: [
        made
        for i in range(1_000)
        for made in (
            group(f"evil-{i}", minMember=2),
            *(
                pod(
                    f"evil-{i}-{j}",
                    meta={"annotations": {GROUP_NAME: f"evil-{i}"}},
                    **requests({"cpu": f"{1000 + i}m", "memory": memory}),
                )
                for j, memory in enumerate(("1Gi", "9999Gi"))
            ),
        )
    ],
    "1,000 Pods, each with a node affinity of its own": lambda: many(
        1_000,
        lambda i: affinity("nodeAffinity", [{"matchExpressions": [term(i), {"key": "no", "operator": "Exists"}]}]),
    ),
    "1,000 Pods, each with an anti-affinity of its own": lambda: many(
        1_000,
        lambda i: {
            **affinity("podAntiAffinity", one_term(labelSelector={"matchExpressions": [term(i)]})),
            "nodeSelector": {"no": "node"},
        },
    ),
    "1,000 Pods, each with 100 topology constraints of its own": lambda: many(
        1_000,
        lambda i: {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": f"label-{j % 20}",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {f"k{i}-{j}": "v"}},
                }
                for j in range(100)
            ]
        },
    ),
    "a ResourceClaim of 1,024 costly expressions": lambda: claims(1_024),
}
"""Maps the title of an attack to its objects."""


def cluster() -> ClusterCache:
    """A cluster of nodes with four running Pods on each; the Pods belong to 20 tenants."""
    cache = ClusterCache(["volcano-py"])
    cache.configure(parse_configuration(CONFIGURATION))
    take_in(
        cache,
        [
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "default"},
                "spec": {"weight": 1},
                "status": {"state": "Open"},
            }
        ],
    )
    for i in range(NODES):
        labels = {"kubernetes.io/hostname": f"node-{i:05d}", **{f"label-{j}": f"{i % (j + 2)}" for j in range(20)}}
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        take_in(
            cache,
            [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"node-{i:05d}", "labels": labels},
                    "status": {"allocatable": amounts},
                }
            ],
        )
    for i in range(4 * NODES):
        name, namespace = f"p{i}", f"tenant-{i % 20}"
        take_in(
            cache,
            [
                group(name, namespace, running=True),
                pod(name, namespace, on=f"node-{i % NODES:05d}", meta={"labels": {"app": f"a{i % 50}"}}),
            ],
        )
    return cache


def take_in(cache: ClusterCache, objects: Iterable[Raw]) -> float:
    """Decodes objects and stores them in the cache. Returns the processor time."""
    seconds = 0.0
    for raw in objects:
        kind = find_kind(raw["apiVersion"], raw["kind"])
        assert kind is not None and kind.struct is not None
        data = msgspec.json.encode(raw)
        begun = time.process_time()
        cache.upsert(kind, msgspec.json.decode(data, type=kind.struct))
        seconds += time.process_time() - begun
    return seconds


def measure(title: str) -> dict[str, Any]:
    gc.set_threshold(*COLLECTION)
    configuration = parse_configuration(CONFIGURATION)
    cache, now = cluster(), time.time()

    def session() -> tuple[float, set[str]]:
        nonlocal now
        now += 1
        begun = time.process_time()
        outcome = run_cycle(cache.snapshot(now), configuration)
        cache.assume(outcome.decisions)
        seconds = time.process_time() - begun
        placed = {bind.task.namespace for bind in outcome.decisions.binds}
        outcome.session.release()
        return seconds, placed

    session()
    taken_in = take_in(cache, ATTACKS[title]())
    take_in(cache, [group("victim", "victim"), pod("victim", "victim")])
    first, placed = session()
    for _ in range(2):
        if "victim" not in placed:
            more, names = session()
            first, placed = first + more, placed | names
    later = []
    for i in range(3):
        take_in(cache, [group(f"later-{i}", "victim"), pod(f"later-{i}", "victim")])
        later.append(session()[0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"in": taken_in, "first": first, "later": max(later), "placed": "victim" in placed, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="Attacks whose title contains this.", default="")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(arguments.one)))
        return
    print("| what is written | decode and store | first session | later session | memory |")
    print("|---|---:|---:|---:|---:|")
    for title in ATTACKS:
        if arguments.only in title:
            command = [sys.executable, "-m", "benchmarks.hostile_input", "--one", title]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            cells = [f"{1000 * found[key]:,.0f} ms" for key in ("in", "first", "later")]
            last = f"{found['memory']:,.0f} MiB" if found["placed"] else "the other Pod was not placed"
            print(f"| {title} | {' | '.join(cells)} | {last} |", flush=True)


if __name__ == "__main__":
    main()
