"""``queue``: tables with counts of PodGroups, creation, and Commands for the queue controller."""

import json

import pytest

from tests.unit.cli.cluster import ALL_GROUPS, COMMANDS, QUEUES, Cluster, Raw, pod_group


def queue(name: str, state: str = "Open", **spec: object) -> Raw:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"weight": 1, **spec},
        "status": {"state": state},
    }


@pytest.fixture
def queues(cluster: Cluster) -> Cluster:
    cluster.holds(QUEUES, queue("default", parent="root"), queue("research", "Closing", weight=4))
    cluster.holds(
        ALL_GROUPS,
        pod_group("a", phase="Running"),
        pod_group("b", phase="Running", queue=""),
        pod_group("c", phase=""),
        pod_group("d", phase="Inqueue", queue="research"),
        pod_group("e", phase="Completed", queue="research"),
        pod_group("f", phase="Unknown", queue="research"),
        pod_group("g", queue="gone"),
    )
    return cluster


def test_the_counts_are_the_pod_groups_by_phase(queues: Cluster) -> None:
    assert queues.prints("queue", "list") == (
        "Name                     Weight  State    Parent  Inqueue  Pending  Running  Unknown  Completed\n"
        "default                  1       Open     root    0        1        2        0        0\n"
        "research                 4       Closing          1        0        0        1        1\n"
    )


def test_get_shows_one_queue_in_the_same_columns(queues: Cluster) -> None:
    for arguments in (("-n", "research"), ("research",)):
        lines = queues.prints("queue", "get", *arguments).splitlines()
        assert [line.split()[0] for line in lines] == ["Name", "research"]
    assert json.loads(queues.prints("queue", "get", "research", "-o", "json"))["spec"] == {"weight": 4}


def test_wide_shows_the_amounts_of_the_queue(cluster: Cluster) -> None:
    raw = queue("q", deserved={"cpu": "4"}, capability={"cpu": "8", "memory": "19595788288"})
    cards = {"NVIDIA-H200": {"used": "1", "quota": "3"}, "malformed": "by hand"}
    raw["status"] = {"allocated": {"cpu": "1500m", "NVIDIA-H200": "1"}, "cards": cards}
    cluster.holds(QUEUES, raw)
    cluster.holds(ALL_GROUPS)

    titles, row = cluster.prints("queue", "list", "-o", "wide").splitlines()

    assert titles.split()[-4:] == ["Deserved", "Capability", "Allocated", "Cards"]
    assert row.split()[-4:] == ["cpu=4", "cpu=8,memory=18.2Gi", "cpu=1500m,NVIDIA-H200=1", "NVIDIA-H200=1/3"]


def test_get_shows_what_the_queue_uses_of_each_resource_and_card_with_the_numbers_of_its_status(
    cluster: Cluster,
) -> None:
    raw = queue("q", capability={"cpu": "8"}, guarantee={"resource": {"memory": "2Gi"}})
    card = {"quota": "3", "used": "4", "inqueue": "1", "requested": "6", "borrowed": "1", "lent": "0"}
    raw["status"] = {
        "allocated": {"cpu": "1500m", "memory": "19595788288", "pods": "4", "NVIDIA-H200": "4"},
        "cards": {"NVIDIA-H200": card, "malformed": "by hand"},
    }
    cluster.holds(QUEUES, raw)
    cluster.holds(ALL_GROUPS)

    assert cluster.prints("queue", "get", "q").partition("\n\n")[2] == (
        "Resource     Used    Capability  Guarantee  Inqueue  Requested  Borrowed  Lent\n"
        "cpu          1500m   8\n"
        "memory       18.2Gi              2Gi\n"
        "NVIDIA-H200  4       3                      1        6          1         0\n"
    )
    row = cluster.prints("queue", "list", "-o", "wide").splitlines()[1]
    assert row.endswith("NVIDIA-H200=4/3 (1 inqueue, 6 requested, 1 borrowed)")


def test_a_queue_is_created_from_flags(cluster: Cluster) -> None:
    cluster.api.answer("POST", QUEUES, queue("research"), status=201)
    flags = "-n research -w 4 --parent root --capability cpu=8 --deserved cpu=4 --guarantee cpu=2"

    assert cluster.prints("queue", "create", *flags.split()) == "create queue research successfully\n"

    assert [call.body for call in cluster.api.to("POST", QUEUES)] == [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "research"},
            "spec": {
                "weight": 4,
                "parent": "root",
                "capability": {"cpu": "8"},
                "deserved": {"cpu": "4"},
                "guarantee": {"resource": {"cpu": "2"}},
            },
            "status": {"state": "Open"},
        }
    ]


def test_a_queue_can_be_closed_from_the_start(cluster: Cluster) -> None:
    cluster.api.answer("POST", QUEUES, queue("test"), status=201)
    cluster.api.answer("PATCH", f"{QUEUES}/test/status", queue("test", "Closed"))

    assert cluster.prints("queue", "create", "-S", "Closed") == "create queue test successfully\n"

    patch = cluster.api.to("PATCH", f"{QUEUES}/test/status")[0]
    assert (patch.body, patch.headers["Content-Type"]) == (
        {"status": {"state": "Closed"}},
        "application/merge-patch+json",
    )


def test_a_queue_that_is_closed_from_the_start_does_not_open_with_its_parent(cluster: Cluster) -> None:
    cluster.api.answer("POST", QUEUES, queue("test"), status=201)
    cluster.api.answer("PATCH", f"{QUEUES}/test/status", queue("test", "Closed"))
    cluster.api.answer("GET", f"{QUEUES}/test", queue("test", "Closed"))
    cluster.api.answer("POST", COMMANDS, {"metadata": {"name": "made"}}, status=201)

    assert cluster.prints("queue", "create", "-S", "Closed", "--parent", "team") == "create queue test successfully\n"

    assert [command.body["action"] for command in cluster.api.to("POST", COMMANDS)] == ["CloseQueue"]


@pytest.mark.parametrize(("action", "word"), [("open", "OpenQueue"), ("close", "CloseQueue")])
def test_opening_and_closing_are_commands_in_the_default_namespace(cluster: Cluster, action: str, word: str) -> None:
    cluster.holds(QUEUES, queue("research"))
    cluster.api.answer("POST", COMMANDS, {"metadata": {"name": "made"}}, status=201)

    assert cluster.prints("queue", "operate", "-n", "research", "-a", action) == (
        f"{action} queue research: Command made created in namespace default\n"
    )

    body = cluster.api.to("POST", COMMANDS)[0].body
    assert body["action"] == word
    assert body["metadata"]["generateName"] == f"research-{word.lower()}-"
    assert body["target"] == body["metadata"]["ownerReferences"][0]
    assert (body["target"]["kind"], body["target"]["uid"]) == ("Queue", "uid-research")


def test_update_patches_the_weight(cluster: Cluster) -> None:
    cluster.api.answer("PATCH", f"{QUEUES}/research", queue("research", weight=7))

    assert cluster.prints("queue", "operate", "-n", "research", "-a", "update", "-w", "7") == (
        "update queue research successfully\n"
    )
    assert cluster.api.to("PATCH", f"{QUEUES}/research")[0].body == {"spec": {"weight": 7}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("operate", "queue name must be specified"),
        ("operate -n q", "action can not be null"),
        ("operate -n q -a pause", "action pause invalid, valid actions are open, close and update"),
        (
            "operate -n q -a update",
            "when update queue q, weight must be specified, the value must be greater than 0",
        ),
        ("delete", "queue name must be specified"),
        ("get", "name is mandatory to get the particular queue details"),
    ],
)
def test_missing_or_invalid_arguments_are_reported_with_vcctls_messages(
    cluster: Cluster, line: str, message: str
) -> None:
    verb, *flags = line.split()

    assert cluster.refuses("queue", verb, *flags) == f"Failed to queue {verb}: {message}\n"
    assert cluster.api.calls == []


def test_the_server_decides_whether_a_queue_may_be_deleted(cluster: Cluster) -> None:
    said = 'admission webhook "validatequeue.volcano.sh" denied the request: `default` queue can not be deleted'
    cluster.api.answer("DELETE", f"{QUEUES}/default", {"reason": "Forbidden", "message": said}, 403)
    cluster.api.answer("DELETE", f"{QUEUES}/research", {"status": "Success"})

    assert cluster.refuses("queue", "delete", "-n", "default") == (
        f"Failed to queue delete: delete Queue default: {said}\n"
    )
    assert cluster.prints("queue", "delete", "-n", "research") == "delete queue research successfully\n"


# --- what counts in no queue ---
HELD = {
    "allocated": {"cpu": "6", "memory": "3Gi", "nvidia.com/gpu": "3"},
    "cards": {"NVIDIA-H200": {"used": "3", "online": "2", "offline": "1"}},
}


@pytest.fixture
def root(cluster: Cluster) -> Cluster:
    raw = queue("root")
    raw["status"]["withoutQueue"] = HELD
    cluster.holds(QUEUES, raw, queue("default", parent="root"))
    cluster.holds(ALL_GROUPS, pod_group("a", phase="Running"))
    return cluster


def test_list_has_a_last_row_for_what_counts_in_no_queue(root: Cluster) -> None:
    assert root.prints("queue", "list").splitlines()[1:] == [
        "root                     1       Open            0        0        0        0        0",
        "default                  1       Open    root    0        0        1        0        0",
        "(no queue)",
    ]
    *_, row = root.prints("queue", "list", "-o", "wide").splitlines()
    assert row.split()[-2:] == ["cpu=6,memory=3Gi,nvidia.com/gpu=3", "NVIDIA-H200=3"]
    names = [item["metadata"]["name"] for item in json.loads(root.prints("queue", "list", "-o", "json"))["items"]]
    assert names == ["root", "default"]


def test_get_shows_what_counts_in_no_queue(root: Cluster) -> None:
    table, _, amounts = root.prints("queue", "get", "(no queue)").partition("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == ["Name", "(no"]
    rows = [line.split() for line in amounts.splitlines()]
    assert rows[0] == ["Resource", "Used", "Capability", "Online", "Offline"]
    assert ["NVIDIA-H200", "3", "2", "1"] in rows and ["cpu", "6"] in rows
    assert json.loads(root.prints("queue", "get", "(no queue)", "-o", "json")) == HELD


def test_malformed_amounts_in_the_status_of_the_root_are_left_out(root: Cluster) -> None:
    raw = queue("root")
    raw["status"]["withoutQueue"] = {"allocated": "by hand", "cards": ["by hand"]}
    root.holds(QUEUES, raw)
    assert len(root.prints("queue", "list").splitlines()) == 2
