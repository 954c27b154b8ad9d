"""The web page over HTTPS: its files, its content for each user, its events, and its limits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from scheduler.cluster.kube.scheduler.visibility import page
from scheduler.cluster.kube.scheduler.visibility.page import STREAMS_OF_USER
from scheduler.cluster.kube.scheduler.visibility.server import LIMITS, PREFIX
from scheduler.observability.connections import Limits
from scheduler.observability.overview import NodeRow, Overview, OverviewView, QueueRow, Rights, WaitingRow, view
from tests.page_server import ACCESS, PageServer, page_server

HOSTILE = "</script><img src=x onerror=alert(1)>\n\ndata: {}\r\u2028"
FIRST = Overview(
    1.0,
    (QueueRow("shared", "", "Open", 1, 2, 2), QueueRow("secret", "", "Open", 1, 2, 2)),
    (
        WaitingRow("research", "train", "shared", "nodes", 1, 2, reason=HOSTILE),
        WaitingRow("secret-team", "other", "shared", "nodes", 2, 2),
    ),
    (NodeRow("secret-node", "chip", "f", (1, 0, 0, 0, 0)),),
    {"research": ("shared",)},
)
SECOND = Overview(2.0, FIRST.queues, FIRST.waiting[:1], FIRST.nodes, FIRST.queues_of)
MINE = "/namespaces/research/pages"


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


class Browser:
    """A client of the server."""

    def __init__(self, server: PageServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    def get(self, path: str, token: str = "", **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._session.get(self.server.url(path), headers=headers, ssl=self.server.tls, **options)

    async def refused(self, path: str, token: str = "") -> tuple[int, str]:
        """The status and message of a refusal."""
        async with self.get(path, token) as answer:
            return answer.status, str((await answer.json())["message"])

    @asynccontextmanager
    async def open(self, path: str, token: str) -> AsyncIterator["Events"]:
        async with self.get(f"{path}?watch=true", token) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()
            yield Events(answer)


class Events:
    """The events of an open page."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def block(self) -> str:
        """The next event or comment; "" at the end."""
        return (await self._answer.content.readuntil(b"\n\n")).decode().removesuffix("\n\n")

    async def next(self) -> tuple[str, Any]:
        """The name and data of the next event."""
        while (block := await self.block()).startswith(":"):
            pass
        name, _, data = block.partition("\n")
        return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@asynccontextmanager
async def browser(**options: Any) -> AsyncIterator[Browser]:
    async with page_server(**options) as server, aiohttp.ClientSession() as session:
        yield Browser(server, session)


# --- files ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scope", ["/pages", MINE])
def test_the_files_are_served_to_everybody_with_a_strict_policy(scope: str) -> None:
    async def scenario() -> None:
        async with browser() as b:
            for name, kind in (("", "text/html"), ("page.css", "text/css"), ("page.js", "text/javascript")):
                async with b.get(f"{scope}/{name}") as answer:
                    assert (answer.status, answer.content_type) == (200, kind)
                    policy = answer.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy and "unsafe" not in policy
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
                    text = await answer.text()
                    assert "://" not in text and "innerHTML" not in text and "style=" not in text
            for name in ("page.py", "..", "%2e%2e%2fpage.py", "index.htm"):
                async with b.get(f"{scope}/{name}") as answer:
                    assert answer.status == 404

    run(scenario)


def test_the_root_of_the_port_leads_to_the_page() -> None:
    async def scenario() -> None:
        async with browser() as b, b._session.get(f"https://127.0.0.1:{b.server.port}/", ssl=b.server.tls) as answer:
            assert answer.status == 200 and str(answer.url) == b.server.url()

    run(scenario)


# --- rights -----------------------------------------------------------------------------------------------------------
def test_without_a_valid_token_nothing_is_shown() -> None:
    async def scenario() -> None:
        async with browser() as b:
            b.server.overviews.publish(FIRST)
            for token in ("", "unknown"):
                for path in ("/pages", "/pages?watch=true", MINE, f"{MINE}?watch=true"):
                    assert (await b.refused(path, token))[0] == 401
            assert b.server.api.to("POST", ACCESS) == []

    run(scenario)


@pytest.mark.parametrize(
    "user, path, verb",
    [
        ("mallory", MINE, "list"),
        ("mallory", f"{MINE}?watch=true", "watch"),
        ("alice", "/pages", "list"),
        ("alice", "/namespaces/secret-team/pages?watch=true", "watch"),
    ],
)
def test_without_the_right_in_this_scope_the_refusal_names_it(user: str, path: str, verb: str) -> None:
    async def scenario() -> None:
        async with browser() as b:
            b.server.overviews.publish(FIRST)
            status, message = await b.refused(path, user)
            assert status == 403
            assert f"User '{user}' cannot {verb} resource 'pages' in API group 'visibility.volcano-py.io'" in message

    run(scenario)


def test_a_tenant_gets_the_own_namespace_without_names_of_others() -> None:
    async def scenario() -> None:
        async with browser() as b:
            b.server.overviews.publish(FIRST)
            async with b.get(MINE, "alice") as answer:
                text = await answer.text()
            assert "secret" not in text
            found = json.loads(text)
            assert set(found["queues"]["set"]) == {"shared"} and found["nodes"] is None
            assert found["waiting"]["set"]["research/train"]["reason"] == HOSTILE

    run(scenario)


def test_an_administrator_gets_the_cluster() -> None:
    async def scenario() -> None:
        async with browser() as b:
            b.server.overviews.publish(FIRST)
            async with b.get("/pages", "admin") as answer:
                found = await answer.json()
            assert set(found["waiting"]["set"]) == {"research/train", "secret-team/other"}
            assert set(found["nodes"]["set"]) == {"secret-node/chip"}

    run(scenario)


@pytest.mark.parametrize("path", ["/namespaces/re%2Fsearch/pages", "/namespaces/..%2f/pages", "/namespaces/A/pages"])
def test_what_is_no_namespace_is_not_asked_about(path: str) -> None:
    async def scenario() -> None:
        async with browser() as b:
            async with b.get(f"{path}?watch=true", "admin") as answer:
                assert answer.status in (400, 404)
            assert b.server.api.to("POST", ACCESS) == []

    run(scenario)


def test_rights_are_asked_for_once_in_a_while_and_not_for_each_page() -> None:
    async def scenario() -> None:
        async with browser(clock=lambda: 0.0) as b:
            b.server.overviews.publish(FIRST)
            for _ in range(5):
                async with b.get(MINE, "alice") as answer:
                    assert answer.status == 200
                b.server.overviews.publish(FIRST)
            assert len(b.server.api.to("POST", ACCESS)) == 4  # pages, queues, PodGroups and nodes

    run(scenario)


# --- events -----------------------------------------------------------------------------------------------------------
def test_a_page_is_sent_everything_and_then_what_changes() -> None:
    async def scenario() -> None:
        async with browser() as b, b.open("/pages", "admin") as events:
            assert await events.block() == ": open"
            b.server.overviews.publish(FIRST)
            name, found = await events.next()
            assert name == "changes" and set(found["queues"]["set"]) == {"shared", "secret"}
            assert found["waiting"]["set"]["research/train"]["reason"] == HOSTILE
            b.server.overviews.publish(SECOND)
            name, found = await events.next()
            assert (name, found.pop("summary")["waiting"]) == ("changes", 1)
            assert found == {"at": 2.0, "waiting": {"set": {}, "gone": ["secret-team/other"]}}

    run(scenario)


def test_pages_that_show_the_same_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(overview: Overview, namespace: str, rights: Rights) -> OverviewView:
        seen.append(namespace)
        return view(overview, namespace, rights)

    monkeypatch.setattr(page, "view", counted)

    async def scenario() -> None:
        async with browser() as b, b.open(MINE, "alice") as one, b.open(MINE, "alice") as two:
            async with b.open("/pages", "admin") as other:
                opened = (one, two, other)
                for at, overview in ((1.0, FIRST), (2.0, SECOND)):
                    b.server.overviews.publish(overview)
                    assert {(await each.next())[1]["at"] for each in opened} == {at}
            assert sorted(seen) == ["", "", "research", "research"]

    run(scenario)


def test_while_nothing_changes_the_connection_is_kept_alive() -> None:
    async def scenario() -> None:
        async with browser(heartbeat=0.02) as b, b.open("/pages", "admin") as events:
            found = {await events.block() for _ in range(4)}
            assert found == {": open", ": still here"}

    run(scenario)


def test_a_page_ends_when_the_right_is_withdrawn() -> None:
    async def scenario() -> None:
        now = 0.0
        async with browser(heartbeat=0.02, clock=lambda: now) as b, b.open(MINE, "alice") as events:
            b.server.overviews.publish(FIRST)
            assert (await events.next())[0] == "changes"
            b.server.allowed["alice"] = False
            now = 61.0
            name, found = await events.next()
            assert (name, found["code"]) == ("refused", 403)
            assert "alice" in found["message"]
            assert await events.block() == ""

    run(scenario)


def test_overviews_are_taken_as_long_as_the_page_is_open() -> None:
    async def scenario() -> None:
        async with browser() as b:
            async with b.open(MINE, "alice"):
                assert b.server.overviews.awaited
            while b.server.overviews.awaited:
                await asyncio.sleep(0.01)

    run(scenario)


# --- bounds -----------------------------------------------------------------------------------------------------------
def test_a_user_opens_a_few_pages_at_a_time() -> None:
    async def scenario() -> None:
        async with browser() as b:
            opened = [b.open(MINE, "alice") for _ in range(STREAMS_OF_USER)]
            for each in opened:
                await each.__aenter__()
            status, message = await b.refused(f"{MINE}?watch=true", "alice")
            assert status == 429 and "6 pages of user 'alice'" in message
            async with b.open("/pages", "admin"):
                pass
            for each in opened:
                await each.__aexit__(None, None, None)
            while b.server.overviews.viewers:
                await asyncio.sleep(0.01)
            async with b.open(MINE, "alice"):
                pass

    run(scenario)


def test_the_pages_about_a_namespace_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "STREAMS_OF_NAMESPACE", 2)

    async def scenario() -> None:
        async with browser() as b, b.open(MINE, "alice"), b.open(MINE, "admin"):
            status, message = await b.refused(f"{MINE}?watch=true", "alice")
            assert (status, message) == (429, "2 pages about namespace 'research' are open")
            async with b.open("/pages", "admin"):
                pass

    run(scenario)


def test_beyond_the_limit_of_pages_the_answer_says_when_to_come_again() -> None:
    async def scenario() -> None:
        async with browser(streams=1) as b, b.open(MINE, "alice"), b.get("/pages?watch=true", "admin") as answer:
            document = await answer.json()
            assert (answer.status, document["message"]) == (503, "1 pages are open, at most 1")
            assert int(answer.headers["Retry-After"]) > 0

    run(scenario)


def test_a_client_that_does_not_read_loses_its_connection() -> None:
    limits = Limits(connections=LIMITS.connections, largest=LIMITS.largest, held=LIMITS.held, fetching=0.2)

    def large(at: int) -> Overview:
        return Overview(float(at), tuple(QueueRow(f"queue-{i}", f"{at}" * 500) for i in range(20_000)))

    async def scenario() -> None:
        async with browser(limits=limits) as b:
            reader, writer = await asyncio.open_connection("127.0.0.1", b.server.port, ssl=b.server.tls, limit=1024)
            path = f"{PREFIX}/pages?watch=true"
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer admin\r\n\r\n"
            writer.write(request.encode())
            await reader.readuntil(b": open")
            at = 0
            while b.server.overviews.viewers:  # until the buffers between them are full
                at = (at + 1) % 10
                b.server.overviews.publish(large(at))
                await asyncio.sleep(0.05)
            writer.close()

    run(scenario)


def test_discovery_names_the_page_and_no_verb_that_generic_watchers_would_use() -> None:
    async def scenario() -> None:
        async with browser() as b, b.get("") as answer:
            (found,) = (each for each in (await answer.json())["resources"] if each["name"] == "pages")
            assert (found["namespaced"], found["verbs"]) == (True, ["get"])

    run(scenario)
