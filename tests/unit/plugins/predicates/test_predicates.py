"""Filters: each on small clusters, and several together against a direct reading of the rules."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Raw, World, configuration, group, node, pod, pods
from tests.examples import examples

CONF = configuration(["gang"], ["predicates"])


def place(*objects: Raw | list[Raw], cycles: int = 1) -> World:
    return World(*objects).run(CONF, cycles)


def message(world: World, name: str) -> str:
    conditions = world.get("Pod", name)["status"]["conditions"]
    return str(next(c["message"] for c in conditions if c["type"] == "PodScheduled"))


def required(*terms: Raw) -> Raw:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Raw:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (expression("zone", "In", "b", "c"), {"n2"}),
        (expression("zone", "NotIn", "a"), {"n2", "n3"}),
        (expression("zone", "Exists"), {"n1", "n2"}),
        (expression("zone", "DoesNotExist"), {"n3"}),
        (expression("cores", "Gt", "8"), {"n2"}),
        (expression("cores", "Lt", "9"), {"n1"}),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}, {"n3"}),
        ({}, set()),
        (expression("zone", "Near", "a"), set()),
        (expression("cores", "Gt", "many"), set()),
    ],
)
def test_required_node_affinity(term: Raw, expected: set[str]) -> None:
    nodes = [
        node("n1", "1c", {"zone": "a", "cores": "8"}),
        node("n2", "1c", {"zone": "b", "cores": "16"}),
        node("n3", "1c"),
    ]

    world = place(nodes, group("g", minimum=0), pods("p", 3, "1c", "g", affinity=required(term)))

    assert set(world.bound.values()) == expected


def test_an_unknown_operator_is_reported_and_matches_nothing() -> None:
    world = place(
        node("n1", "1c", {"zone": "a"}),
        group("g"),
        pod("p", "1c", "g", affinity=required(expression("zone", "Near", "a"))),
    )

    assert not world.bound
    assert any("operator 'Near' is not known" in text for text in world.events("Malformed"))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], "free"),
        ([{"key": "gpu", "operator": "Exists"}], "tainted"),
        ([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], "tainted"),
        ([{"key": "gpu", "value": "no"}], "free"),
        ([{"operator": "Exists"}], "tainted"),
        ([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], "free"),
    ],
)
def test_a_tainted_node_accepts_only_pods_that_tolerate_the_taint(tolerations: list[Raw], expected: str) -> None:
    tainted = node("a", "9c", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])

    world = place(tainted, node("b", "1c"), group("g"), pod("p", "1c", "g", tolerations=tolerations))

    assert world.bound == {"p": {"tainted": "a", "free": "b"}[expected]}


def test_a_taint_is_named_by_key_and_value() -> None:
    yes: Raw = {"key": "gpu", "value": "yes"}
    tainted = [
        node("a", "9c", taints=[{"key": "soft", "effect": "PreferNoSchedule"}, yes | {"effect": "NoExecute"}]),
        node("b", "9c", taints=[yes | {"effect": "NoSchedule"}, {"key": "later", "effect": "NoSchedule"}]),
        node("c", "9c", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
    ]
    world = place(*tainted, group("g"), pod("p", "1c", "g"))
    text = "0/3 nodes are unavailable: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, "
    assert message(world, "p") == text + "2 node(s) had untolerated taint {gpu: yes}."


def test_of_many_taints_those_of_most_nodes_are_named() -> None:
    tainted = [node(f"n{i}", "9c", taints=[{"key": f"own-{i // 2}", "effect": "NoSchedule"}]) for i in range(13)]
    world = place(*tainted, group("g"), pod("p", "1c", "g"))
    assert message(world, "p").count("2 node(s) had untolerated taint {own-") == 5
    assert "3 node(s) had other untolerated taints" in message(world, "p")


def test_a_cordoned_node_accepts_only_pods_that_tolerate_the_unschedulable_taint() -> None:
    cordoned = node("a", "4c", unschedulable=True)
    toleration = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]

    world = place(cordoned, group("g", minimum=0), pod("p", "1c", "g"), pod("q", "1c", "g", tolerations=toleration))

    assert world.bound == {"q": "a"}
    assert "node(s) were unschedulable" in message(world, "p")


def test_a_node_runs_at_most_its_allocatable_number_of_pods() -> None:
    world = place(node("a", "9c+2p"), group("g", minimum=0), pods("p", 3, "", "g"))

    assert len(world.bound) == 2


def container(port: int, **rest: Any) -> list[Raw]:
    return [{"name": "main", "ports": [{"containerPort": 80, "hostPort": port, **rest}]}]


def test_a_host_port_is_used_once_per_node_and_address() -> None:
    world = place(
        node("a", "9c"),
        node("b", "9c"),
        group("g", minimum=0),
        pod("there", on="a", containers=container(80, hostIP="10.0.0.1")),
        pods("p", 3, "", "g", containers=container(80)),
        pod("q", "", "g", containers=container(80, hostIP="10.0.0.2")),
        pod("udp", "", "g", containers=container(80, protocol="UDP")),
    )

    assert sorted(world.bound) == ["p-0", "q", "udp"]
    assert world.bound["p-0"] == "b"
    assert world.bound["q"] == "a"


def with_pods(labels: dict[str, str], kind: str, key: str = "zone", **rest: Any) -> Raw:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **rest}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


ZONES = [
    node("a1", "9c", {"zone": "a"}),
    node("a2", "9c", {"zone": "a"}),
    node("b1", "9c", {"zone": "b"}),
    node("x", "9c"),
]


def test_pod_affinity_selects_the_zone_of_the_matching_pod() -> None:
    world = place(
        ZONES,
        group("g"),
        pod("web", on="b1", labels={"app": "web"}),
        pod("p", "1c", "g", affinity=with_pods({"app": "web"}, "podAffinity")),
    )

    assert world.bound == {"p": "b1"}


def test_affinity_without_matching_pods_admits_only_a_pod_that_matches_its_own_term() -> None:
    own, other = with_pods({"app": "x"}, "podAffinity"), with_pods({"app": "y"}, "podAffinity")

    world = place(
        ZONES,
        group("g", minimum=0),
        pods("self", 3, "4c", "g", labels={"app": "x"}, affinity=own),
        pod("lonely", "1c", "g", affinity=other),
    )

    assert "lonely" not in world.bound
    assert {world.bound[f"self-{i}"][0] for i in range(3)} == {"a"}
    assert "didn't match pod affinity rules" in message(world, "lonely")


def test_anti_affinity_separates_equal_pods_and_applies_to_existing_pods() -> None:
    apart = with_pods({"app": "db"}, "podAntiAffinity", "kubernetes.io/hostname")

    world = place(
        ZONES,
        group("g", minimum=0),
        pod("there", on="a1", labels={"app": "db"}, affinity=apart),
        pods("db", 4, "1c", "g", labels={"app": "db"}, affinity=apart),
    )
    assert sorted(world.bound.values()) == ["a2", "b1", "x"]

    newcomer = place(
        ZONES,
        group("g"),
        pod("there", on="a1", labels={"app": "cache"}, affinity=with_pods({"app": "web"}, "podAntiAffinity")),
        pods("web", 2, "1c", "g", labels={"app": "web"}),
    )
    assert set(newcomer.bound.values()) <= {"b1", "x"}


def test_the_anti_affinity_of_a_pod_placed_in_this_session_rejects_later_pods() -> None:
    away_from_web = with_pods({"app": "web"}, "podAntiAffinity", "kubernetes.io/hostname")
    first = [group("first"), pod("cache", "1c", "first", labels={"app": "cache"}, affinity=away_from_web)]
    then = [group("then"), pod("web", "1c", "then", labels={"app": "web"})]
    assert place(node("n1", "9c"), first, then).bound == {"cache": "n1"}


def test_a_node_that_several_terms_reject_is_counted_once_for_the_first_term() -> None:
    apart = with_pods({"app": "db"}, "podAntiAffinity", "kubernetes.io/hostname")
    terms = apart["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms += with_pods({"app": "db"}, "podAntiAffinity", "zone")["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]

    world = place(
        node("a1", labels={"zone": "a"}),
        pod("there", on="a1", labels={"app": "db"}, affinity=apart),
        group("g"),
        pod("p", "1c", "g", labels={"app": "db"}, affinity=apart),
    )

    assert "0/1 nodes are unavailable: 1 node(s) didn't match pod anti-affinity rules" in message(world, "p")
    assert "existing pods" not in message(world, "p")


def test_terms_select_pods_of_the_own_namespace_unless_they_name_others() -> None:
    far = pod("web", on="b1", labels={"app": "web"})
    far["metadata"]["namespace"] = "other"
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "t"}}}]
    here = with_pods({"app": "web"}, "podAffinity")
    there = with_pods({"app": "web"}, "podAffinity", namespaces=["other"])
    selected = with_pods({"app": "web"}, "podAffinity", namespaceSelector={"matchLabels": {"team": "t"}})

    for affinity, expected in ((here, {}), (there, {"p": "b1"}), (selected, {"p": "b1"})):
        assert place(ZONES, namespaces, far, group("g"), pod("p", "1c", "g", affinity=affinity)).bound == expected


def spread(skew: int, key: str = "zone", when: str = "DoNotSchedule", **rest: Any) -> list[Raw]:
    selector = {"matchLabels": {"app": "s"}}
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **rest}]


def test_spreading_keeps_zones_within_max_skew_and_rejects_nodes_without_a_zone() -> None:
    world = place(
        ZONES,
        group("g", minimum=0),
        pods("p", 7, "1c", "g", labels={"app": "s"}, topologySpreadConstraints=spread(1)),
    )

    zones = [name[0] for name in world.bound.values()]
    assert len(zones) == 7
    assert abs(zones.count("a") - zones.count("b")) <= 1
    assert "x" not in zones


def test_a_node_that_two_constraints_reject_is_counted_once() -> None:
    both = spread(1) + spread(1, key="kubernetes.io/hostname")
    there = pod("there", on="a1", labels={"app": "s"})

    world = place(
        [node("a1", labels={"zone": "a"}), node("b1", labels={"zone": "b"}, unschedulable=True)],
        *(there, group("g"), pod("p", "1c", "g", labels={"app": "s"}, topologySpreadConstraints=both)),
    )

    assert "1 node(s) didn't match pod topology spread constraints" in message(world, "p")


@pytest.mark.parametrize(("policy", "placed"), [("Honor", False), ("Ignore", False)])
def test_a_cordoned_node_counts_as_a_domain_for_pods_that_tolerate_the_taint(policy: str, placed: bool) -> None:
    """The zone with the fewest Pods has only a full node, so the zone with a Pod gets no second one."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = node("b1", "0c", labels={"zone": "b"}, unschedulable=True, taints=[taint])
    there = pod("there", on="a1", labels={"app": "s"})
    waiting = pod(
        *("p", "1c", "g"),
        labels={"app": "s"},
        tolerations=[{"operator": "Exists"}],
        topologySpreadConstraints=spread(1, nodeTaintsPolicy=policy),
    )

    world = place([node("a1", labels={"zone": "a"}), cordoned], there, group("g"), waiting)

    assert ("p" in world.bound) is placed


def test_with_fewer_domains_than_min_domains_the_smallest_count_is_zero() -> None:
    constraint = spread(1, minDomains=3)

    world = place(
        ZONES, group("g", minimum=0), pods("p", 4, "1c", "g", labels={"app": "s"}, topologySpreadConstraints=constraint)
    )

    assert sorted(name[0] for name in world.bound.values()) == ["a", "b"]


def claim(name: str, **spec: Any) -> Raw:
    meta = {"name": name, "namespace": "default"}
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**wanted, **spec}}


def volume(name: str, zone: str, storage: str = "1Gi", **spec: Any) -> Raw:
    terms = {"nodeSelectorTerms": [expression("zone", "In", zone)]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": storage},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "nodeAffinity": {"required": terms},
            **spec,
        },
    }


def storage_class(name: str, mode: str) -> Raw:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


USES = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]


@pytest.mark.parametrize(
    ("objects", "expected", "reason"),
    [
        ([claim("c", volumeName="v1"), volume("v1", "b")], "b1", ""),
        ([], None, 'persistentvolumeclaim "c" not found'),
        ([claim("c", volumeName="gone")], None, 'persistentvolume "gone" not found'),
        (
            [claim("c", storageClassName="now"), storage_class("now", "Immediate")],
            None,
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [claim("c", storageClassName="late"), storage_class("late", "WaitForFirstConsumer"), volume("v1", "b")],
            "b1",
            "",
        ),
        (
            [
                claim("c", storageClassName="late"),
                storage_class("late", "WaitForFirstConsumer"),
                volume("v1", "b", "1Mi"),
            ],
            None,
            "node(s) didn't find available persistent volumes to bind",
        ),
        (
            [
                claim("c", storageClassName="late"),
                storage_class("late", "WaitForFirstConsumer"),
                volume("v1", "b", claimRef={"namespace": "default", "name": "other"}),
            ],
            None,
            "node(s) didn't find available persistent volumes to bind",
        ),
    ],
)
def test_a_pod_is_scheduled_where_its_volumes_are_accessible(
    objects: list[Raw], expected: str | None, reason: str
) -> None:
    world = place(ZONES, objects, group("g"), pod("p", "1c", "g", volumes=USES))

    assert world.bound.get("p") == expected
    assert not reason or reason in message(world, "p")


def test_single_filters_can_be_disabled() -> None:
    conf = configuration(
        ["gang"],
        ["predicates"],
        arguments={"predicates": {"predicate.TaintTolerationEnable": False, "predicate.NodeAffinityEnable": False}},
    )
    tainted = node("a", "4c", taints=[{"key": "k", "effect": "NoSchedule"}])

    world = World(tainted, group("g"), pod("p", "1c", "g", selector={"zone": "nowhere"})).run(conf)

    assert world.bound == {"p": "a"}


# --- compared with a direct reading of the rules ---
APPS = ["x", "y"]
TERM = st.fixed_dictionaries({"app": st.sampled_from(APPS), "key": st.sampled_from(["zone", "kubernetes.io/hostname"])})
SHAPE = st.fixed_dictionaries(
    {
        "app": st.sampled_from(APPS),
        "with": st.one_of(st.none(), TERM),
        "away": st.one_of(st.none(), TERM),
        "spread": st.one_of(st.none(), st.integers(1, 2)),
    }
)


def shaped(name: str, shape: dict[str, Any], **rest: Any) -> Raw:
    affinity: Raw = {}
    if shape["with"]:
        affinity |= with_pods({"app": shape["with"]["app"]}, "podAffinity", shape["with"]["key"])
    if shape["away"]:
        affinity |= with_pods({"app": shape["away"]["app"]}, "podAntiAffinity", shape["away"]["key"])
    body: Raw = {"affinity": affinity} if affinity else {}
    if shape["spread"]:
        selector = {"matchLabels": {"app": shape["app"]}}
        body["topologySpreadConstraints"] = [
            {
                "maxSkew": shape["spread"],
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    return pod(name, labels={"app": shape["app"]}, **body, **rest)


def admitted(shape: dict[str, Any], placed: list[tuple[dict[str, Any], str]], zones: dict[str, str]) -> set[str]:
    """The nodes that pass all filters for a Pod of the shape, computed directly from the rules."""

    def domain(name: str, key: str) -> str | None:
        return zones[name] or None if key == "zone" else name

    good = set()
    for name, zone in zones.items():
        ok = True
        if shape["with"]:
            app, key = shape["with"]["app"], shape["with"]["key"]
            matching = [domain(n, key) for s, n in placed if s["app"] == app]
            first = not any(matching) and shape["app"] == app
            ok &= domain(name, key) is not None and (first or domain(name, key) in matching)
        if shape["away"]:
            app, key = shape["away"]["app"], shape["away"]["key"]
            ok &= domain(name, key) is None or all(
                domain(n, key) != domain(name, key) for s, n in placed if s["app"] == app
            )
        for other, where in placed:
            if other["away"] and other["away"]["app"] == shape["app"]:
                key = other["away"]["key"]
                ok &= domain(name, key) is None or domain(where, key) != domain(name, key)
        if shape["spread"]:
            counts = {zone: 0 for zone in zones.values() if zone}
            for other, where in placed:
                if zones[where] and other["app"] == shape["app"]:
                    counts[zones[where]] += 1
            ok &= bool(zone) and counts[zone] + 1 - min(counts.values()) <= shape["spread"]
        if ok:
            good.add(name)
    return good


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4),
    st.lists(st.tuples(SHAPE, st.integers(0, 3)), max_size=5),
    SHAPE,
)
def test_pod_affinity_and_spreading_agree_with_a_direct_reading_of_the_rules(
    zone_list: list[str], there: list[tuple[dict[str, Any], int]], shape: dict[str, Any]
) -> None:
    zones = {f"n{i}": zone for i, zone in enumerate(zone_list)}
    nodes = [node(name, "99c", {"zone": zone} if zone else {}) for name, zone in zones.items()]
    placed = [(s, f"n{i % len(zones)}") for s, i in there]
    standing = [shaped(f"there-{i}", s, on=n) for i, (s, n) in enumerate(placed)]
    world = World(nodes, standing, group("g"), shaped("p", shape, asks="1c", group="g"))

    session = world.session(CONF)
    job = session.jobs["default/g"]
    task = next(iter(job.tasks()))
    view = session.view(task.cls, job)
    found = {name for name, row in session.nodes.index.items() if view.admits(row)}

    assert found == admitted(shape, placed, zones)
