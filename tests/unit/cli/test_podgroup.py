"""podgroup list."""

import json

from scheduler.testing import group
from tests.unit.cli.cluster import Cluster

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def test_podgroups_of_a_queue_are_listed(cluster: Cluster) -> None:
    cluster.holds(GROUPS, group("train", "research", 2, phase="Running"), group("serve"))
    title, row = cluster.prints("podgroup", "list", "-q", "research").splitlines()
    assert title.split() == ["Name", "Phase", "minMember", "Running", "Queue", "Age"]
    assert row.split() == ["train", "Running", "2", "0", "research", "<unknown>"]


def test_json_has_the_whole_objects(cluster: Cluster) -> None:
    cluster.holds(GROUPS, group("train", "research", 2), group("serve"))
    (item,) = json.loads(cluster.prints("podgroup", "list", "-q", "research", "-o", "json"))["items"]
    assert item["spec"] == {"queue": "research", "minMember": 2}


def test_the_queue_is_completed(cluster: Cluster) -> None:
    cluster.holds(QUEUES, {"metadata": {"name": "research"}})
    assert cluster.completes("podgroup", "list", "-q", "re") == ["research"]


def test_all_namespaces_have_a_column(cluster: Cluster) -> None:
    cluster.holds("/apis/scheduling.volcano.sh/v1beta1/podgroups", group("train"))
    title, row = cluster.prints("podgroup", "list", "-A").splitlines()
    assert (title.split()[0], row.split()[:3]) == ("Namespace", ["default", "train", "<none>"])


def test_wide_output_adds_the_priority_class_and_names_can_be_printed_alone(cluster: Cluster) -> None:
    cluster.holds(GROUPS, group("train", priority_class="high"))
    assert cluster.prints("podgroup", "list", "-o", "wide").splitlines()[1].split()[-1] == "high"
    assert cluster.prints("podgroup", "list", "-o", "name") == "podgroup.scheduling.volcano.sh/train\n"
