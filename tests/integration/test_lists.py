"""Lists and takeovers on a real API server: the pages of both kinds of lists, and the state of a standby when it
becomes the leader."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from controlplane.manifests import RELEASE
from controlplane.run import ControlPlane
from scheduler.api.kinds import CONFIG_MAP, POD_GROUP, Kind
from scheduler.api.objects import KubeObject
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch import informer_set, pages
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet
from scheduler.cluster.kube.watch.pages import pages_of_heads, pages_of_objects
from scheduler.observability.metrics import Metrics
from tests.integration.rights import account
from tests.integration.stage import Namespace, emptied

pytestmark = pytest.mark.controlplane

OBJECTS = 60


@pytest.mark.parametrize("kind", [CONFIG_MAP, POD_GROUP], ids=str)
def test_pages_of_a_list_have_each_object_once(control_plane: ControlPlane, kind: Kind) -> None:
    namespace = Namespace(control_plane)
    fill(control_plane, kind, namespace.name)
    compressed = 0
    inflate = pages._inflated

    def counted(path: str, body: bytes) -> bytes:
        nonlocal compressed
        compressed += body.startswith(b"\x1f\x8b")
        return inflate(path, body)

    async def scenario() -> None:
        client = ApiClient(Credentials(kubeconfig=str(control_plane.kubeconfig)), Metrics())
        await client.start()
        source, expected = WatchSource(kind, namespace.name), [f"o{number:02d}" for number in range(OBJECTS)]
        decoder = msgspec.json.Decoder(kind.struct)
        for size in (7, 20, 0):
            found = []
            async with aclosing(pages_of_objects(client, source, size, decoder)) as listed:
                async for page in listed:
                    found += [item.object.metadata.name for item in page.items or () if item.object is not None]
            assert found == expected
            assert await heads(client, source, size) == expected
        await client.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "_inflated", counted)
        asyncio.run(scenario())
    if kind is CONFIG_MAP:  # API servers compress answers of more than 128 KiB
        assert compressed


def fill(control_plane: ControlPlane, kind: Kind, namespace: str) -> None:
    """Creates ``OBJECTS`` objects."""
    big = {"data": {"text": "x" * 9000}} if kind is CONFIG_MAP else {"spec": {"minMember": 1}}
    for number in range(OBJECTS):
        control_plane.admin.create(
            kind.path_in(namespace),
            {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": {"name": f"o{number:02d}", "annotations": {"text": '],"kind":"x","metadata":{'}},
                **big,
            },
        )


async def heads(client: ApiClient, source: WatchSource, size: int) -> list[str]:
    found = []
    async with aclosing(pages_of_heads(client, source, size)) as listed:
        async for page in listed:
            found += [item.metadata.name for item in page.items or ()]
    return found


class Names:
    """The names of the watched objects."""

    def __init__(self) -> None:
        self.there: set[str] = set()

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        self.there.add(obj.metadata.name)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.there.discard(name)


@pytest.mark.parametrize("kind", [CONFIG_MAP, POD_GROUP], ids=str)
def test_whether_a_watch_lags_is_known_without_another_list(
    control_plane: ControlPlane, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = Namespace(control_plane)
    fill(control_plane, kind, namespace.name)

    async def no_list(informer: Informer) -> bool:
        raise AssertionError("the objects are listed again")

    monkeypatch.setattr(informer_set, "_catch_up_with_list", no_list)

    async def scenario() -> None:
        client = ApiClient(Credentials(kubeconfig=str(control_plane.kubeconfig)), Metrics())
        await client.start()
        names = Names()
        source = WatchSource(kind, namespace.name)
        informer = Informer(client, source, names, lambda malformed, about: None, Metrics(), page=OBJECTS // 3)
        informers = InformerSet([informer])
        informers.start()
        stop = asyncio.Event()
        await informers.synced(stop)
        for _ in range(2):
            Namespace(control_plane)  # the version of the cluster grows
            assert await informers.catch_up((kind,), stop)
            control_plane.admin.delete(f"{kind.path_in(namespace.name)}/o00")
            assert await informers.catch_up((kind,), stop)
            assert len(names.there) == OBJECTS - 1
            control_plane.admin.create(
                kind.path_in(namespace.name),
                {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "o00"}},
            )
            assert await informers.catch_up((kind,), stop)
            assert len(names.there) == OBJECTS
        await informers.close()
        await client.close()

    asyncio.run(scenario())


def test_a_standby_knows_all_that_a_killed_leader_wrote_before_it_leads(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    emptied(control_plane)
    cluster = Namespace(control_plane)
    cluster.node("n1")
    election = (
        "--leader-elect=true",
        f"--leader-elect-resource-name={RELEASE}-scheduler",
        f"--leader-elect-resource-namespace={cluster.name}",
        "--leader-elect-lease-duration=12s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=500ms",
    )
    cluster.group("before", 1)
    cluster.pod("before-0", "before", {"cpu": "1"})
    rights = account(cluster.plane, "scheduler", cluster.name)
    with cluster.scheduled(tmp_path, *election, kubeconfig=rights) as leader:
        cluster.wait(lambda: "before-0" in cluster.bound())
        with cluster.scheduled(tmp_path, *election, kubeconfig=rights) as standby:
            cluster.wait(lambda: "standing by" in standby.log.read_text(encoding="utf-8"))
            leader.kill()
            cluster.group("after", 1)
            cluster.pod("after-0", "after", {"cpu": "1"})
            cluster.wait(lambda: "after-0" in cluster.bound())
            log = standby.log.read_text(encoding="utf-8")
    assert log.index('"caught up with another leader"') < log.index('"leading"')
    assert log.index('"leading"') < log.index("Open Session")
