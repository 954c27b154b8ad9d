"""resourcequota: admits PodGroups that fit the namespace's ResourceQuotas."""

from scheduler.cluster.memory.quotas import NamespaceQuotas
from tests.builders import Raw, World, configuration, group, node, pod, pods

CONF = configuration(["resourcequota"], actions="enqueue")


def quota(name: str = "rq", used: dict[str, str] | None = None, **hard: str) -> Raw:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"hard": limits},
        "status": {"hard": limits, "used": used or {}},
    }


def test_a_pod_group_that_fits_the_quota_is_admitted() -> None:
    world = World(quota(cpu="4", used={"cpu": "1"}), group("fits", asks="3c"), group("too-much", asks="3500mc"))
    world.run(CONF)
    assert (world.phase("fits"), world.phase("too-much")) == ("Inqueue", "Pending")


def test_earlier_admissions_in_the_session_count() -> None:
    world = World(quota(cpu="4"), group("first", asks="3c"), group("second", asks="3c")).run(CONF)
    assert (world.phase("first"), world.phase("second")) == ("Inqueue", "Pending")


def test_the_refusal_names_the_quota_and_the_numbers() -> None:
    world = World(quota(cpu="4", memory="1Gi", used={"cpu": "2"}), group("a", asks="3c+512Mi")).run(CONF)
    expected = "resource quota insufficient, requested: cpu 3, used: cpu 2, limited: cpu 4 (ResourceQuota default/rq)"
    assert any(expected in message for message in world.events("Unschedulable"))


def test_each_quota_of_the_namespace_counts() -> None:
    world = World(quota("wide", cpu="9"), quota("tight", cpu="1"), group("a", asks="2c")).run(CONF)
    assert world.phase("a") == "Pending"


def test_resources_that_only_quotas_have_are_compared() -> None:
    asked = group("a", asks="1c")
    asked["spec"]["minResources"] = {"requests.cpu": "3", "count/pods": "2"}
    world = World(quota(requests_cpu="2"), asked).run(CONF)
    assert world.phase("a") == "Pending"


def test_quotas_of_other_namespaces_do_not_count() -> None:
    other = quota(cpu="1")
    other["metadata"]["namespace"] = "other"
    assert World(other, group("a", asks="2c")).run(CONF).phase("a") == "Inqueue"


def test_a_pod_group_without_min_resources_is_admitted() -> None:
    assert World(quota(cpu="0"), group("a")).run(CONF).phase("a") == "Inqueue"


def test_an_invalid_amount_is_ignored_and_reported() -> None:
    world = World(quota(cpu="many", memory="1Gi"), group("a", asks="2c")).run(CONF)
    assert world.phase("a") == "Inqueue"
    assert any(message.startswith("status.hard[cpu]: ") for message in world.events("Malformed"))


# --- quotas in a simulation ---
def test_a_simulated_quota_counts_the_requests_of_pods_that_have_not_finished() -> None:
    world = World(
        *(node("n1"), quota(cpu="4", pods="9"), group("a"), pods("a", 2, "1500mc", "a")),
        pod("done", "1c", phase="Succeeded", on="n1"),
    )
    quotas = NamespaceQuotas(world.cluster.server)
    assert quotas.sync()
    assert world.get("ResourceQuota", "rq")["status"]["used"] == {"cpu": "3", "pods": "2"}
    assert not quotas.sync(), "it is up to date"
