"""The aggregated API: its users, permissions and limits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from scheduler.api.explained_kinds import EXPLAINED
from scheduler.cluster.kube.scheduler.visibility.answers import BusyError, WorkerAnswer
from scheduler.cluster.kube.scheduler.visibility.limits import QuestionRates, RateLimit
from scheduler.cluster.kube.scheduler.visibility.reviews import MAX_BYTES
from scheduler.cluster.kube.scheduler.visibility.server import IN_FLIGHT_OF_NAMESPACE, PREFIX, VisibilityServer
from scheduler.cluster.kube.scheduler.visibility.user import FrontProxy, FrontProxyError, User, read_front_proxy
from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from scheduler.cluster.kube.serving.tls import ServingContext
from scheduler.observability.role_metrics import RoleMetrics, VisibilityMetrics
from tests.unit.cluster.kube.fake_api import Answer as Reply
from tests.unit.cluster.kube.fake_api import Call, FakeApi, refusal, serving

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
QUOTAS = f"{PREFIX}/namespaces/research/queuequotas"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/research/jobs"
EXPLAIN = f"{PREFIX}/namespaces/research/jobs/train/explain"
PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
ALICE = {"username": "alice", "uid": "u1", "groups": ["team"], "extra": {"scopes": ["a"]}}


class World:
    """A server, the API server behind it, and a client with the bearer token ``alice``."""

    def __init__(self, api: FakeApi, server: VisibilityServer, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.server = server
        self._session = session
        self.asked: list[tuple[str, ...]] = []
        self.busy = False
        self.hold = asyncio.Event()
        """Set when answers may be sent."""
        self.hold.set()
        self.answer = WorkerAnswer(200, body=msgspec.Raw(b'{"a": 1}'))

    async def explain(self, kind: str, namespace: str, name: str) -> WorkerAnswer:
        if self.busy:
            raise BusyError("16 questions wait", 50)
        self.asked.append((kind, namespace, name))
        await self.hold.wait()
        return self.answer

    async def review(self, namespace: str, objects: str) -> WorkerAnswer:
        self.asked.append((namespace, objects))
        return self.answer

    async def queues(self, namespace: str, nothing: bytes) -> WorkerAnswer:
        self.asked.append((namespace,))
        return WorkerAnswer(200, body=msgspec.Raw(nothing))

    async def post(self, path: str, body: bytes, token: str = "alice") -> tuple[int, Any]:
        url = f"https://127.0.0.1:{self.server.port}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.post(url, headers=headers, data=body) as response:
            text = await response.text()
            return response.status, msgspec.json.decode(text) if text.startswith("{") else text

    async def get(self, path: str, token: str = "alice", **headers: str) -> tuple[int, Any]:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with self._session.get(url, headers=headers) as response:
            text = await response.text()
            return response.status, msgspec.json.decode(text) if text.startswith("{") else text


@asynccontextmanager
async def world(rates: QuestionRates | None = None, reviews: RateLimit | None = None) -> AsyncIterator[World]:
    pem = to_pem(renewed(None, ["127.0.0.1"], datetime.now(UTC)))
    tls = ServingContext(client_certificates=True)
    tls.load(pem["tls.crt"], pem["tls.key"])
    trusts_ca = ssl.create_default_context(cadata=pem["ca.crt"].decode())
    async with (
        serving() as (api, client),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusts_ca)) as session,
    ):
        made: list[World] = []

        class Late:
            async def explain(self, kind: str, namespace: str, name: str) -> WorkerAnswer:
                return await made[0].explain(kind, namespace, name)

            async def review(self, namespace: str, objects: str) -> WorkerAnswer:
                return await made[0].review(namespace, objects)

            async def queues(self, namespace: str, nothing: bytes) -> WorkerAnswer:
                return await made[0].queues(namespace, nothing)

        server = VisibilityServer(
            client, Late(), VisibilityMetrics(RoleMetrics().registry), rates=rates, reviews=reviews
        )
        made.append(World(api, server, session))
        await server.start("127.0.0.1", 0, tls)

        async def review(call: Call, request: web.Request) -> Reply:
            token = call.body["spec"]["token"]
            users = {"alice": ALICE} | ({token: {"username": token}} if token.startswith("system:") else {})
            return {"status": {"authenticated": token in users, "user": users.get(token, {})}}

        async def access(call: Call, request: web.Request) -> Reply:
            return {"status": {"allowed": call.body["spec"]["resourceAttributes"]["namespace"] == "research"}}

        api.answer("GET", JOBS, {"items": [{"metadata": {"name": "train"}}]})
        api.on("POST", TOKENS, review)
        api.on("POST", ACCESS, access)
        try:
            yield made[0]
        finally:
            await server.stop()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_the_owner_of_a_token_is_authorized_for_the_very_object() -> None:
    async def scenario() -> None:
        async with world() as w:
            assert await w.get(EXPLAIN) == (200, {"a": 1})
            assert w.asked == [("job", "research", "train")]
            (review,) = w.api.to("POST", ACCESS)
            assert review.body["spec"] == {
                "user": "alice",
                "uid": "u1",
                "groups": ["team"],
                "extra": {"scopes": ["a"]},
                "resourceAttributes": {
                    "group": "visibility.volcano-py.io", "version": "v1alpha1", "resource": "jobs",
                    "subresource": "explain", "verb": "get", "namespace": "research", "name": "train",
                },
            }  # fmt: skip

    run(scenario)


def test_a_refused_user_gets_the_name_of_the_missing_right_and_no_question_is_asked() -> None:
    async def scenario() -> None:
        async with world() as w:
            status, answer = await w.get(f"{PREFIX}/namespaces/secret/queuequotas")
            assert (status, answer["kind"], answer["reason"]) == (403, "Status", "Forbidden")
            assert "User 'alice' cannot list resource 'queuequotas'" in answer["message"]
            assert w.asked == []

    run(scenario)


@pytest.mark.parametrize("token", ["", "mallory", "x" * 20_000])
def test_without_a_valid_token_nothing_is_answered(token: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            status, _ = await w.get(QUOTAS, token, **{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            assert status in (400, 401)
            assert w.asked == [] and w.api.to("POST", ACCESS) == []

    run(scenario)


@pytest.mark.parametrize(
    "path",
    [
        f"{PREFIX}/namespaces/re%2Fsearch/queuequotas",
        f"{PREFIX}/namespaces/..%2f/queuequotas",
        f"{PREFIX}/namespaces/research/jobs/tr%00ain/explain",
        f"{PREFIX}/namespaces/research/jobs/{'x' * 300}/explain",
        f"{PREFIX}/namespaces/research/jobs/A/explain",
        f"{PREFIX}/namespaces/research/secrets/a/explain",
    ],
)
def test_what_is_no_name_reaches_neither_the_api_server_nor_a_process(path: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            status, _ = await w.get(path)
            assert status in (400, 404)
            assert w.asked == [] and w.api.to("POST", ACCESS) == []

    run(scenario)


def test_a_user_who_asks_too_often_is_refused_before_the_api_server_is_asked() -> None:
    async def scenario() -> None:
        async with world(QuestionRates(RateLimit(1, 0.001))) as w:
            assert (await w.get(QUOTAS))[0] == 200
            status, answer = await w.get(QUOTAS)
            assert (status, answer["reason"]) == (429, "TooManyRequests")
            assert answer["details"]["retryAfterSeconds"] > 0
            assert len(w.api.to("POST", ACCESS)) == 1

    run(scenario)


def test_a_user_leaves_places_to_others() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.hold = asyncio.Event()
            asking = [asyncio.create_task(w.get(EXPLAIN)) for _ in range(2)]
            while len(w.asked) < 2:
                await asyncio.sleep(0.01)
            status, answer = await w.get(EXPLAIN)
            assert (status, answer["message"]) == (429, "2 questions of user 'alice' wait for an answer")
            w.hold.set()
            assert [(await each)[0] for each in asking] == [200, 200]
            assert (await w.get(EXPLAIN))[0] == 200

    run(scenario)


def test_many_accounts_of_a_namespace_leave_places_to_others() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.hold = asyncio.Event()
            accounts = [f"system:serviceaccount:research:a{number}" for number in range(IN_FLIGHT_OF_NAMESPACE + 1)]
            asking = [asyncio.create_task(w.get(EXPLAIN, each)) for each in accounts[:-1]]
            while len(w.asked) < IN_FLIGHT_OF_NAMESPACE:
                await asyncio.sleep(0.01)
            status, answer = await w.get(EXPLAIN, accounts[-1])
            message = "4 questions of accounts of namespace 'research' wait for an answer"
            assert (status, answer["message"]) == (429, message)
            status, answer = await w.get(EXPLAIN)
            assert (status, answer["message"]) == (429, "4 questions about namespace 'research' wait for an answer")
            w.hold.set()
            assert [(await each)[0] for each in asking] == [200] * IN_FLIGHT_OF_NAMESPACE

    run(scenario)


def test_users_without_rights_do_not_use_up_the_limits_of_a_namespace() -> None:
    async def scenario() -> None:
        rates = QuestionRates(per_namespace=lambda: RateLimit(2, 0.001))
        async with world(rates) as w:
            w.api.on("POST", ACCESS, _allows_alice_alone)
            found = [(await w.get(QUOTAS, f"system:serviceaccount:n{number}:a"))[0] for number in range(5)]
            assert found == [403] * 5
            assert [(await w.get(QUOTAS))[0] for _ in range(3)] == [200, 200, 429]

    run(scenario)


async def _allows_alice_alone(call: Call, request: web.Request) -> Reply:
    return {"status": {"allowed": call.body["spec"]["user"] == "alice"}}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("jobs", "typo", "there is no job typo in namespace research"),
        ("podgroups", "train", "there is no podgroup train in namespace research"),
        ("pods", "other-w-0", "there is no pod other-w-0 in namespace research"),
        ("deployments", "web", "there is no deployment web in namespace research"),
        ("jobflows", "nightly", "there is no jobflow nightly in namespace research"),
        (
            "pods",
            "train-w-0",
            "there is no pod train-w-0 in namespace research; job train creates it once it is admitted: "
            "explain job train",
        ),
    ],
)
def test_a_question_about_an_object_that_does_not_exist_starts_no_process(kind: str, name: str, message: str) -> None:
    async def scenario() -> None:
        async with world() as w:

            async def jobs(call: Call, request: web.Request) -> Reply:
                selector = request.query.get("fieldSelector", "")
                found = ["train", "tra"] if selector in ("", "metadata.name=train") else []
                return {"items": [{"metadata": {"name": each}} for each in found]}

            w.api.on("GET", JOBS, jobs)
            w.api.answer("GET", "/api/v1/namespaces/research/pods", {"items": None})
            status, answer = await w.get(f"{PREFIX}/namespaces/research/{kind}/{name}/explain")
            assert (status, answer["reason"], answer["message"]) == (404, "NotFound", message)
            assert w.asked == []

    run(scenario)


def test_a_flood_of_invalid_tokens_is_not_passed_on_to_the_api_server() -> None:
    async def scenario() -> None:
        async with world(reviews=RateLimit(3, 0.001)) as w:
            found = [(await w.get(QUOTAS, "mallory"))[0] for _ in range(10)]
            assert found == [401] * 3 + [429] * 7
            assert len(w.api.to("POST", TOKENS)) == 3

    run(scenario)


def test_a_busy_server_says_when_to_ask_again() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.busy = True
            status, answer = await w.get(EXPLAIN)
            assert (status, answer["message"], answer["details"]) == (
                503,
                "16 questions wait",
                {"retryAfterSeconds": 50},
            )

    run(scenario)


def test_without_an_answer_of_the_api_server_nothing_is_answered() -> None:
    async def scenario() -> None:
        async with world() as w:

            async def fails(call: Call, request: web.Request) -> Reply:
                return refusal(403, "Forbidden", "the scheduler may not ask")

            w.api.on("POST", ACCESS, fails)
            assert (await w.get(EXPLAIN))[0] == 503
            assert w.asked == []

    run(scenario)


def test_errors_of_an_answer_keep_their_status_and_message() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.answer = WorkerAnswer(404, "there is no job train in namespace research")
            status, answer = await w.get(EXPLAIN)
            assert (status, answer["reason"], answer["message"]) == (404, "NotFound", w.answer.message)

    run(scenario)


def test_discovery_names_the_resources_and_needs_no_rights() -> None:
    async def scenario() -> None:
        async with world() as w:
            status, answer = await w.get(PREFIX, "")
            assert status == 200
            assert {(each["name"], *each["verbs"]) for each in answer["resources"]} == {
                *((f"{entry.resource}/explain", "get") for entry in EXPLAINED.values()),
                ("queuequotas", "list"),
                ("runreviews", "create"),
            }

    run(scenario)


# --- objects that are not submitted yet -------------------------------------------------------------------------------
REVIEWS = f"{PREFIX}/namespaces/research/runreviews"


def job(name: str = "new", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {},
    }


def listed(*objects: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects})


def test_a_question_about_new_objects_takes_the_right_to_ask_and_the_rights_to_create_them() -> None:
    async def scenario() -> None:
        async with world() as w:
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"generateName": "data-"}}
            body = listed(job("train"), job("new"), job("other"), claim)
            assert await w.post(REVIEWS, body) == (200, {"a": 1})
            assert w.asked == [("research", body.decode())]
            rights = [call.body["spec"]["resourceAttributes"] for call in w.api.to("POST", ACCESS)]
            assert [(each["verb"], each["group"], each["resource"], each["name"]) for each in rights] == [
                ("create", "visibility.volcano-py.io", "runreviews", ""),
                ("update", "batch.volcano.sh", "jobs", "train"),
                ("create", "batch.volcano.sh", "jobs", ""),
                ("create", "", "persistentvolumeclaims", ""),
            ]
            assert {each["namespace"] for each in rights} == {"research"}

    run(scenario)


def test_who_may_not_create_a_job_gets_no_answer_about_it() -> None:
    async def scenario() -> None:
        async with world() as w:

            async def access(call: Call, request: web.Request) -> Reply:
                allowed = call.body["spec"]["resourceAttributes"]["resource"] == "runreviews"
                return {"status": {"allowed": allowed}}

            w.api.on("POST", ACCESS, access)
            status, answer = await w.post(REVIEWS, listed(job()))
            assert (status, answer["reason"]) == (403, "Forbidden")
            assert "User 'alice' cannot create resource 'jobs' in API group 'batch.volcano.sh'" in answer["message"]
            assert w.asked == []

    run(scenario)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"kind: Job", "as JSON"),
        (b"{" * 5000, "as JSON"),
        (b'{"items": 3}', "as JSON"),
        (b'{"kind": "Job"}', "as JSON"),
        (b"\xff", "as JSON"),
        (listed(), "0 objects; a question has 1 to 32"),
        (listed(*(job(f"j{i}") for i in range(33))), "33 objects"),
        (listed(job(namespace="secret")), "is in namespace secret, not research"),
        (listed(job("a,metadata.namespace=secret")), "cannot be a name"),
        (listed({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}), "Node of v1 cannot be asked about"),
        (listed({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}), "Queue"),
        (listed({"apiVersion": "v1", "kind": "Job", "metadata": {"name": "q"}}), "Job of v1 cannot be asked about"),
    ],
)  # fmt: skip
def test_what_is_no_question_about_objects_of_the_namespace_reaches_no_process(body: bytes, words: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            status, answer = await w.post(REVIEWS, body)
            assert (status, answer["reason"]) == (400, "BadRequest")
            assert words in answer["message"]
            assert w.asked == []

    run(scenario)


def test_a_question_that_is_too_large_is_refused() -> None:
    async def scenario() -> None:
        async with world() as w:
            status, _ = await w.post(REVIEWS, b" " * (MAX_BYTES + 1))
            assert status == 413
            assert w.asked == []

    run(scenario)


# --- the front proxy --------------------------------------------------------------------------------------------------
FRONT = FrontProxy(
    "PEM", ("front-proxy-client",), ("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Extra-",), ("X-Remote-Uid",)
)


def test_an_api_server_names_the_user_in_headers() -> None:
    headers = CIMultiDict([("x-remote-user", "alice"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b")])
    headers.add("X-Remote-Extra-Example.com%2Fscope", "s")
    headers.add("X-Remote-Uid", "u1")

    user = FRONT.user(CIMultiDictProxy(headers))

    assert user == User("alice", ("a", "b"), "u1", {"example.com/scope": ["s"]})
    assert FRONT.user(CIMultiDictProxy(CIMultiDict())) is None


def test_only_a_verified_certificate_of_a_listed_name_is_trusted() -> None:
    subjects = certificate_of("front-proxy-client")

    assert FRONT.trusts(subjects)
    assert not FRONT.trusts(None)
    assert not FRONT.trusts({})
    assert not FRONT.trusts(certificate_of("somebody"))
    assert FrontProxy("PEM").trusts(certificate_of("anybody"))
    assert not FrontProxy().trusts(subjects)


def certificate_of(name: str) -> dict[str, Any]:
    return {"subject": ((("commonName", name),),)}


def test_the_configuration_of_the_api_server_is_read() -> None:
    data = {
        "requestheader-client-ca-file": "PEM",
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
    }

    async def scenario() -> None:
        async with serving() as (api, client):
            api.answer("GET", PROXY, {"data": data})
            assert await read_front_proxy(client) == FRONT
            api.answer("GET", PROXY, {"data": {**data, "requestheader-allowed-names": "front"}})
            with pytest.raises(
                FrontProxyError,
                match=r"extension-apiserver-authentication.*allowed-names\]: not JSON: .*\(line 1, column 1\)",
            ):
                await read_front_proxy(client)

    run(scenario)
