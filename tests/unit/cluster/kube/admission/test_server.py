"""AdmissionReviews over TLS, as an API server sends them, and their answers."""

import asyncio
import base64
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from scheduler.api.kinds import QUEUE
from scheduler.api.names import CARD_QUOTA
from scheduler.api.objects import ObjectMeta
from scheduler.api.scheduling import Queue, QueueSpec, QueueStatus
from scheduler.cluster.kube.admission.cluster_reader import MAX_PAGES, ClusterReader
from scheduler.cluster.kube.admission.decision import DecisionView, ReviewOutcome, WatchedView, decide
from scheduler.cluster.kube.admission.review_handler import ReviewHandler
from scheduler.cluster.kube.admission.review_queue import (
    MAX_INLINE_BYTES,
    MAX_INLINE_OBJECTS,
    QueueFullError,
    ReviewQueue,
)
from scheduler.cluster.kube.admission.server import MAX_BODY_BYTES, AdmissionServer
from scheduler.cluster.kube.admission.templates import TemplateValidator
from scheduler.cluster.kube.admission.worker_process import BATCH_SIZE
from scheduler.cluster.kube.serving.certificates import KeyMaterial, renewed, to_pem
from scheduler.cluster.kube.serving.tls import ServingContext, serving_context
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.contract import AdmissionRequest, CardOverGrant, ClusterView, Json, WebhookSettings
from scheduler.webhooks.routes import Route, routes
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, serving

HOSTS = ("127.0.0.1",)
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def key_material() -> KeyMaterial:
    return renewed(None, HOSTS, datetime.now(UTC))


def server_context(material: KeyMaterial) -> ssl.SSLContext:
    pem = to_pem(material)
    return serving_context(pem["tls.crt"], pem["tls.key"])


class World:
    """A running webhook server and the API server that it reads from."""

    def __init__(self, api: FakeApi, client: ApiClient, known: Iterable[Route]) -> None:
        self.api = api
        self.view = WatchedView()
        self.settings = WebhookSettings(("volcano",))
        self.metrics = AdmissionMetrics()
        self.tls = ServingContext()
        self.trusted = key_material()
        self.tls.use(server_context(self.trusted))
        self.review_queue = ReviewQueue(self.view)
        review_handler = ReviewHandler(
            self.view,
            ClusterReader(client, self.metrics),
            lambda: self.settings,
            self.metrics,
            self.review_queue,
            TemplateValidator(client, "ours"),
        )
        self.server = AdmissionServer(review_handler, known, "127.0.0.1", 0, shutdown_timeout=5.0)

    def queue(self, name: str, parent: str = "", state: str = "Open") -> None:
        obj = Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent=parent), status=QueueStatus(state=state))
        self.view.upsert(QUEUE, obj)

    async def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Sends a request on a new connection, with a new TLS handshake."""
        context = ssl.create_default_context(cadata=to_pem(self.trusted)["ca.crt"].decode())
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            sent = {"Content-Type": "application/json", **(headers or {})}
            async with session.post(url, data=body, headers=sent) as response:
                return response.status, await response.read()

    async def ask(self, path: str, obj: Json, operation: str = "CREATE", **more: Any) -> Json:
        """The response of a review."""
        status, body = await self.post(path, review(path, obj, operation, **more))
        assert status == 200
        answer: Json = json.loads(body)
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert answer["response"]["uid"] == "u-1"
        response: Json = answer["response"]
        return response

    def answered(self, path: str, result: str) -> float:
        labels = {"path": path, "result": result}
        return self.metrics.registry.get_sample_value("volcano_py_admission_requests_total", labels) or 0


def review(path: str, obj: Json, operation: str = "CREATE", **more: Any) -> bytes:
    kind = routes()[path].kind
    version = kind.api_version.rpartition("/")[2]
    request = {
        "uid": "u-1",
        "resource": {"group": kind.group, "version": version, "resource": kind.plural},
        "operation": operation,
        "namespace": "default" if kind.namespaced else "",
        "name": (obj.get("metadata") or {}).get("name", ""),
        "object": obj,
        "oldObject": None,
        "dryRun": True,
        **more,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@asynccontextmanager
async def running_server(*extra: Route) -> AsyncIterator[World]:
    """A running server. ``extra``: routes that replace those with the same path."""
    async with serving() as (api, client):
        world = World(api, client, {**routes(), **{route.path: route for route in extra}}.values())
        await world.server.start(world.tls.tls)
        try:
            yield world
        finally:
            await world.server.stop()
            await world.review_queue.close()


def patch_of(response: Json) -> Any:
    return json.loads(base64.b64decode(response["patch"]))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_a_mutation_is_returned_as_a_patch() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            response = await world.ask("/queues/mutate", {"metadata": {"name": "q"}, "spec": {"weight": 2}})
            assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
            assert patch_of(response) == [{"op": "add", "path": "/spec/reclaimable", "value": True}]
            done = {"metadata": {"name": "q"}, "spec": {"weight": 2, "reclaimable": False}}
            assert await world.ask("/queues/mutate", done) == {"uid": "u-1", "allowed": True}

    run(scenario)


def test_a_refusal_is_returned_with_its_reason_and_counted() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            obj = {"metadata": {"name": "q"}, "spec": {"parent": "q"}}
            response = await world.ask("/queues/validate", obj)
            status = {"code": 400, "message": "queue q cannot use itself as parent"}
            assert response == {"uid": "u-1", "allowed": False, "status": status}
            assert (await world.ask("/queues/validate", {"metadata": {"name": "q"}, "spec": {}}))["allowed"]
            assert (world.answered("/queues/validate", "denied"), world.answered("/queues/validate", "allowed")) == (
                1,
                1,
            )

    run(scenario)


def test_a_write_that_is_allowed_is_answered_with_warnings_by_the_validating_webhook_only() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            obj = {"metadata": {"name": "q"}, "spec": {"weight": 1, "capability": {"nvidia.com/gpuu": 1}}}
            text = "spec.capability[nvidia.com/gpuu]: unknown resource; did you mean 'nvidia.com/gpu'?"
            answer = {"uid": "u-1", "allowed": True, "warnings": [text]}
            assert await world.ask("/queues/validate", obj) == answer
            assert "warnings" not in await world.ask("/queues/mutate", obj)

    run(scenario)


JOB_TEMPLATES = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobtemplates"


def job_flow(*steps: str, **metadata: Any) -> Json:
    return {"metadata": {"name": "f", **metadata}, "spec": {"flows": [{"name": step} for step in steps]}}


def template_pages(*pages: Sequence[str]) -> Callable[[Call, web.Request], Awaitable[Answer]]:
    """A handler that lists the metadata of JobTemplates, page by page."""

    async def answer(call: Call, request: web.Request) -> Answer:
        assert "as=PartialObjectMetadataList" in call.headers["Accept"]
        number = int(call.query.get("continue", 0))
        following = str(number + 1) if number + 1 < len(pages) else ""
        return {"metadata": {"continue": following}, "items": [{"metadata": {"name": name}} for name in pages[number]]}

    return answer


@pytest.mark.parametrize("padding", [0, 100_000])
def test_missing_templates_of_a_job_flow_are_warnings(padding: int) -> None:
    """A large review is decided on in the worker process."""

    async def scenario() -> None:
        async with running_server() as world:
            world.api.on("GET", JOB_TEMPLATES, template_pages(["train"], ["report"]))
            flow = job_flow("train", "trian", "report", "x", annotations={"note": "x" * padding})
            assert await world.ask("/jobflows/validate", flow) == {
                "uid": "u-1",
                "allowed": True,
                "warnings": [
                    "spec.flows[1].name: there is no JobTemplate 'trian'; the step waits for it; did you mean 'train'?",
                    "spec.flows[3].name: there is no JobTemplate 'x'; the step waits for it",
                ],
            }
            assert [call.query for call in world.api.to("GET", JOB_TEMPLATES)] == [
                {"limit": "500"},
                {"limit": "500", "continue": "1"},
            ]

    run(scenario)


def test_an_update_warns_of_the_templates_of_new_steps_only() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.api.on("GET", JOB_TEMPLATES, template_pages(["train"]))
            old = job_flow("train", "gone")
            response = await world.ask("/jobflows/validate", job_flow("gone", "new", "train"), "UPDATE", oldObject=old)
            assert response["warnings"] == ["spec.flows[1].name: there is no JobTemplate 'new'; the step waits for it"]
            labelled = job_flow("train", "gone", labels={"a": "b"})
            assert "warnings" not in await world.ask("/jobflows/validate", labelled, "UPDATE", oldObject=old)
            assert len(world.api.to("GET", JOB_TEMPLATES)) == 1

    run(scenario)


NODES = "/api/v1/nodes"


def with_quota(name: str, **quota: int) -> Json:
    """``quota``: by card, with _ for -."""
    text = json.dumps({card.replace("_", "-"): number for card, number in quota.items()})
    return {"metadata": {"name": name, "annotations": {CARD_QUOTA: text}}, "spec": {"weight": 1}}


def serve_cards(world: World, healthy: int = 10, *queues: Json) -> None:
    """The API server has a node with ten cards, in a second page, and these queues."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "10"}
    amounts = {"capacity": {"nvidia.com/gpu": "10"}, "allocatable": {"nvidia.com/gpu": str(healthy)}}

    async def nodes(call: Call, request: web.Request) -> Answer:
        if "continue" in call.query:
            return {"metadata": {}, "items": [{"metadata": {"name": "n", "labels": labels}, "status": amounts}]}
        return {"metadata": {"continue": "1"}, "items": [{"metadata": {"name": "cpu"}}]}

    world.api.on("GET", NODES, nodes)
    world.api.answer("GET", QUEUES, {"metadata": {}, "items": list(queues)})


@pytest.mark.parametrize("padding", [0, 100_000])
@pytest.mark.parametrize("policy", CardOverGrant)
def test_a_quota_that_grants_more_cards_than_nodes_have_is_accepted_warned_of_or_refused(
    policy: CardOverGrant, padding: int
) -> None:
    """A large review is decided on in the worker process."""

    async def scenario() -> None:
        async with running_server() as world:
            world.settings = replace(world.settings, card_over_grant=policy)
            serve_cards(world, 10, with_quota("other", NVIDIA_H200=5))
            obj = with_quota("q", NVIDIA_H200=6)
            obj["metadata"]["annotations"]["note"] = "x" * padding
            response = await world.ask("/queues/validate", obj)
            text = (
                f"metadata.annotations[{CARD_QUOTA}]: the quotas of all queues add up to more cards than the nodes "
                "have: NVIDIA-H200: 11 granted, 10 existing, 10 healthy; quota of this queue: 6"
            )
            match policy:
                case CardOverGrant.OFF:
                    assert response == {"uid": "u-1", "allowed": True}
                    assert not world.api.to("GET", NODES)
                case CardOverGrant.WARN:
                    assert response == {"uid": "u-1", "allowed": True, "warnings": [text]}
                case CardOverGrant.REFUSE:
                    assert response == {"uid": "u-1", "allowed": False, "status": {"code": 400, "message": text}}

    run(scenario)


def test_only_a_raised_quota_is_compared_with_the_cards() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.settings = replace(world.settings, card_over_grant=CardOverGrant.REFUSE)
            old = with_quota("q", NVIDIA_H200=20)
            serve_cards(world, 10, old)
            for new in (
                with_quota("q", NVIDIA_H200=20),
                with_quota("q", NVIDIA_H200=15, NVIDIA_H800=0),
                with_quota("q"),
                {"metadata": {"name": "q"}, "spec": {"weight": 7}},
            ):
                assert (await world.ask("/queues/validate", new, "UPDATE", oldObject=old))["allowed"]
            assert not world.api.to("GET", NODES)
            more = with_quota("q", NVIDIA_H200=21)
            assert not (await world.ask("/queues/validate", more, "UPDATE", oldObject=old))["allowed"]

    run(scenario)


def test_cards_that_are_not_healthy_are_a_warning_only() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.settings = replace(world.settings, card_over_grant=CardOverGrant.REFUSE)
            serve_cards(world, 9)
            response = await world.ask("/queues/validate", with_quota("q", NVIDIA_H200=10))
            assert response["allowed"] and "10 granted, 10 existing, 9 healthy" in response["warnings"][0]
            response = await world.ask("/queues/validate", with_quota("q", NVIDIA_H800=1))
            assert not response["allowed"] and "no node has the card 'NVIDIA-H800'" in response["status"]["message"]

    run(scenario)


def test_if_nodes_cannot_be_read_the_quota_is_not_stored_or_stored_with_a_warning() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            serve_cards(world)
            world.api.answer("GET", NODES, {"message": "no"}, 403)
            world.settings = replace(world.settings, card_over_grant=CardOverGrant.REFUSE)
            body = review("/queues/validate", with_quota("q", NVIDIA_H200=1))
            status, text = await world.post("/queues/validate", body)
            assert status == 500 and b"could not be compared with the cards of the nodes" in text
            world.settings = replace(world.settings, card_over_grant=CardOverGrant.WARN)
            response = await world.ask("/queues/validate", with_quota("q", NVIDIA_H200=1))
            assert response["allowed"] and "could not be compared" in response["warnings"][0]

    run(scenario)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_job_flow_is_allowed_without_warnings_if_its_templates_cannot_be_read(status: int) -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.api.answer("GET", JOB_TEMPLATES, {"message": "no"}, status)
            assert await world.ask("/jobflows/validate", job_flow("train")) == {"uid": "u-1", "allowed": True}
            refused = await world.ask("/jobflows/validate", {"spec": {"flows": [{"name": "a"}] * 2001}})
            assert not refused["allowed"]

    run(scenario)


def test_of_a_namespace_with_very_many_templates_it_is_not_known_which_are_missing() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.api.on("GET", JOB_TEMPLATES, template_pages(*(["train"] for _ in range(MAX_PAGES + 1))))
            assert "warnings" not in await world.ask("/jobflows/validate", job_flow("x"))
            assert len(world.api.to("GET", JOB_TEMPLATES)) == MAX_PAGES

    run(scenario)


def test_the_deletion_of_a_queue_is_reviewed_by_name() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("p")
            world.queue("c", parent="p")
            response = await world.ask("/queues/validate", {}, "DELETE", name="p", object=None)
            text = "queue p can not be deleted because it has 1 child queues: c"
            assert response["status"]["message"] == text

    run(scenario)


# --- queues that the watch has not delivered ---
def group(queue: str) -> Json:
    return {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": queue}}


def test_a_queue_that_the_watch_has_not_delivered_is_read_before_it_counts_as_unknown() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.api.answer("GET", f"{QUEUES}/young", {"metadata": {"name": "young"}, "spec": {"weight": 1}})
            assert (await world.ask("/podgroups/validate", group("young")))["allowed"]
            response = await world.ask("/podgroups/validate", group("nowhere"))
            missing = 'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found'
            assert response["status"]["message"] == missing
            world.queue("known")
            assert (await world.ask("/podgroups/validate", group("known")))["allowed"]
            assert [call.path for call in world.api.calls] == [f"{QUEUES}/young", f"{QUEUES}/nowhere"]

    run(scenario)


def test_all_undelivered_ancestors_of_a_queue_are_read() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            for name, parent in (("a", "root"), ("b", "a"), ("c", "b")):
                obj = {"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent}}
                world.api.answer("GET", f"{QUEUES}/{name}", obj)
            obj = {"metadata": {"name": "d"}, "spec": {"parent": "c"}}
            assert (await world.ask("/queues/validate", obj))["allowed"]

    run(scenario)


@pytest.mark.parametrize("name", ["../../../api/v1/secrets", ".", "a/b", "q?watch=1", "%2e%2e", "Q", "q" * 300])
def test_a_queue_name_that_is_a_path_is_not_requested(name: str) -> None:
    async def scenario() -> None:
        async with running_server() as world:
            assert not (await world.ask("/podgroups/validate", group(name)))["allowed"]
            assert world.api.calls == []

    run(scenario)


def test_an_api_server_that_does_not_answer_does_not_delay_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cluster.kube.admission.review_handler.READ_SECONDS", 0.05)

    async def scenario() -> None:
        async with running_server() as world:

            async def silent(call: Call, request: web.Request) -> Answer:
                await asyncio.sleep(0.5)
                return None

            world.api.on("GET", f"{QUEUES}/slow", silent)
            response = await world.ask("/podgroups/validate", group("slow"))
            assert response["status"]["message"].startswith("unable to find queue")

    run(scenario)


# --- invalid requests and exceptions ---
def test_a_body_that_is_too_large_is_refused_with_413() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            assert await world.post("/queues/mutate", b"x" * (MAX_BODY_BYTES + 1)) == (
                413,
                b"request body too large: at most 3145728 bytes",
            )
            assert (await world.post("/queues/mutate", b"x" * MAX_BODY_BYTES))[0] == 400

    run(scenario)


def test_another_content_type_gets_an_empty_answer() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            body = review("/queues/mutate", {})
            assert await world.post("/queues/mutate", body, {"Content-Type": "text/plain"}) == (200, b"")

    run(scenario)


def changed(**fields: Any) -> bytes:
    whole = json.loads(review("/queues/mutate", {}))
    whole.update({key: value for key, value in fields.items() if key != "request"})
    whole["request"].update(fields.get("request", {}))
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not an AdmissionReview: Input data was truncated"),
        (b"[]", "not an AdmissionReview: Expected `object`"),
        (b"[" * 100_000, "not an AdmissionReview"),
        (changed(apiVersion="admission.k8s.io/v1beta1"), "expected admission.k8s.io/v1 AdmissionReview, got"),
        (changed(request={"uid": 7}), "not an AdmissionReview: Expected `str`, got `int`"),
        (changed(request={"object": 7}), "not an AdmissionReview: Expected `object | null`, got `int`"),
        (changed(request={"operation": "DELETE"}), "/queues/mutate is not about DELETE"),
        (changed(request={"operation": "CONNECT"}), "/queues/mutate is not about CONNECT"),
        (
            changed(request={"resource": {"group": "", "version": "v1", "resource": "pods"}}),
            "/queues/mutate is about queues.scheduling.volcano.sh, not pods.",
        ),
    ],
)
def test_a_body_that_is_not_a_review_of_the_path_is_a_bad_request_with_the_reason(body: bytes, text: str) -> None:
    async def scenario() -> None:
        async with running_server() as world:
            status, answer = await world.post("/queues/mutate", body)
            assert status == 400
            assert answer.decode().startswith(text)
            assert world.answered("/queues/mutate", "malformed") == 1

    run(scenario)


def test_an_exception_refuses_the_write_with_its_message() -> None:
    def fail(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
        raise ZeroDivisionError("oh")

    async def scenario() -> None:
        async with running_server(replace(routes()["/queues/validate"], validate=fail)) as world:
            response = await world.ask("/queues/validate", {"metadata": {"name": "q"}})
            text = "/queues/validate failed on Queue q: ZeroDivisionError: oh"
            assert response["status"] == {"code": 500, "message": text}
            assert world.answered("/queues/validate", "error") == 1

    run(scenario)


def test_paths_that_are_not_served_and_methods_other_than_post_are_refused() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            assert (await world.post("/nothing/validate", b"{}"))[0] == 404

    run(scenario)


# --- TLS ---
def test_a_certificate_is_replaced_while_the_server_runs() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            obj = {"metadata": {"name": "q"}, "spec": {}}
            assert (await world.ask("/queues/validate", obj))["allowed"]
            other = key_material()
            world.tls.use(server_context(other))
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await world.ask("/queues/validate", obj)
            world.trusted = other
            assert (await world.ask("/queues/validate", obj))["allowed"]

    run(scenario)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_old_tls_versions_are_rejected() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", world.server.port, ssl=context)

    run(scenario)


def test_requests_in_flight_finish_before_the_server_stops() -> None:
    entered: list[str] = []

    async def scenario() -> None:
        async with running_server() as world:

            async def slow(call: Call, request: web.Request) -> Answer:
                entered.append(call.path)
                await asyncio.sleep(0.3)
                return {"metadata": {"name": "young"}, "spec": {"weight": 1}}

            world.api.on("GET", f"{QUEUES}/young", slow)
            asked = asyncio.create_task(world.ask("/podgroups/validate", group("young")))
            while not entered:
                await asyncio.sleep(0.005)
            await world.server.stop()
            assert (await asked)["allowed"]

    run(scenario)


def test_a_view_drops_deleted_objects() -> None:
    view = WatchedView()

    def bound() -> int:
        return DecisionView(view, {}).bound_pods("q")

    view.upsert(QUEUE, Queue(metadata=ObjectMeta(name="q"), status=QueueStatus(allocated={"pods": "3"})))
    assert bound() == 3
    view.upsert(QUEUE, Queue(metadata=ObjectMeta(name="q"), status=QueueStatus(allocated={"pods": "x"})))
    assert bound() == 0
    view.delete(QUEUE, "", "q")
    assert view.queue("q") is None
    assert bound() == 0


def test_queues_read_for_a_decision_take_precedence_over_those_of_the_watch() -> None:
    view = WatchedView()
    for name in ("a", "b"):
        view.upsert(QUEUE, Queue(metadata=ObjectMeta(name=name)))
    read = {name: Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=7)) for name in ("b", "c")}
    seen = DecisionView(view, read)
    assert sorted((queue.metadata.name, queue.spec.weight == 7) for queue in seen.queues()) == [
        ("a", False),
        ("b", True),
        ("c", True),
    ]
    assert seen.queue("b") is read["b"] and seen.missing_queues == set()
    assert seen.queue("d") is None and seen.missing_queues == {"d"}


# --- Pod templates ---
TEMPLATES = "/api/v1/namespaces/ours/podtemplates"


def job_of(*images: str, padding: int = 0, **spec: Any) -> Json:
    """A vcjob with one task for each image."""
    tasks = [
        {
            "name": f"t{index}",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": image}], "x": "x" * padding}},
        }
        for index, image in enumerate(images)
    ]
    return {"metadata": {"name": "j"}, "spec": {"tasks": tasks, "minAvailable": 1, "queue": "q", **spec}}


def refuse_templates_without_image(api: FakeApi) -> None:
    """Makes the API server refuse templates without an image, as Kubernetes does."""

    async def validate(call: Call, request: web.Request) -> Answer:
        if call.body["template"]["spec"]["containers"][0]["image"]:
            return {}
        cause = {"field": "template.spec.containers[0].image", "message": "Required value"}
        return web.json_response({"message": "is invalid", "details": {"causes": [cause]}}, status=422)

    api.on("POST", TEMPLATES, validate)


@pytest.mark.parametrize("padding", [0, MAX_INLINE_BYTES])
def test_the_distinct_pod_templates_of_small_and_large_jobs_are_validated(padding: int) -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("q")
            refuse_templates_without_image(world.api)
            assert (await world.ask("/jobs/validate", job_of(*"aab", padding=padding)))["allowed"]
            assert len(world.api.calls) == 2
            response = await world.ask("/jobs/validate", job_of("", "a", "", padding=padding))
            missing = "template.spec.containers[0].image: Required value."
            text = f"spec.task[0].{missing} spec.task[2].{missing}"
            assert response["status"] == {"code": 400, "message": text}
            assert (world.review_queue.worker is not None) == bool(padding)
            assert world.answered("/jobs/validate", "denied") == 1

    run(scenario)


def test_a_refused_job_is_refused_with_the_problems_of_its_templates_too() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("q")
            refuse_templates_without_image(world.api)
            response = await world.ask("/jobs/validate", job_of("", minAvailable=5))
            assert response["status"]["message"] == (
                "spec.task[0].template.spec.containers[0].image: Required value.  job 'minAvailable' should not be "
                "greater than total replicas in tasks;"
            )

    run(scenario)


def test_a_job_whose_templates_cannot_be_validated_is_left_to_the_failure_policy() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("q")
            world.api.answer("POST", TEMPLATES, {"message": "secret"}, status=403)
            why = (
                "2 of 2 Pod templates could not be validated, the first that of spec.task[0]: PodTemplates may not be "
                "created in namespace ours, not even in a dry run (403)"
            )
            body = review("/jobs/validate", job_of("a", "b"))
            assert await world.post("/jobs/validate", body) == (500, why.encode())
            assert world.answered("/jobs/validate", "unvalidated") == 1
            response = await world.ask("/jobs/validate", job_of("a", "b", minAvailable=5))
            wrong = "job 'minAvailable' should not be greater than total replicas in tasks;"
            assert response["status"] == {"code": 400, "message": f"{wrong} {why}"}

    run(scenario)


@pytest.mark.slow
def test_templates_are_validated_in_the_time_that_the_api_server_waits() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("q")

            async def silent(call: Call, request: web.Request) -> Answer:
                await asyncio.sleep(30)
                return None

            world.api.on("POST", TEMPLATES, silent)
            body = review("/jobs/validate", job_of("a"))
            status, text = await world.post("/jobs/validate?timeout=1s", body)
            assert status == 500
            assert text.startswith(b"1 of 1 Pod templates could not be validated, the first that of spec.task[0]: the")

    run(scenario)


def test_an_update_of_a_job_needs_no_api_server() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            old, new = job_of("a", "b"), job_of("a", "b", minAvailable=2)
            assert (await world.ask("/jobs/validate", new, "UPDATE", oldObject=old))["allowed"]
            assert world.api.calls == []

    run(scenario)


# --- large reviews ---
def large(path: str = "/jobs/validate", size: int = 2 * MAX_INLINE_BYTES, **spec: Any) -> bytes:
    return review(path, {"metadata": {"name": "x", "annotations": {"a": "x" * size}}, "spec": spec})


def many_tasks(count: int) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {"metadata": {"name": "x"}, "spec": {"tasks": [{"replicas": 1, "template": template}] * count}}


@pytest.fixture
def forbid_large_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asserts that no large review is decided in this process, which has the event loop."""

    def only_small(route: Route, body: bytes, *others: Any) -> ReviewOutcome:
        assert len(body) <= MAX_INLINE_BYTES and body.count(b"{") <= MAX_INLINE_OBJECTS
        return decide(route, body, *others)

    monkeypatch.setattr("scheduler.cluster.kube.admission.review_handler.decide", only_small)


@pytest.mark.slow
@pytest.mark.usefixtures("forbid_large_decisions")
def test_a_large_review_is_decided_in_the_worker_with_the_same_answer() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            world.queue("default")
            job = many_tasks(5000)
            mutated = await world.ask("/jobs/mutate", job)
            expected = decide(
                routes()["/jobs/mutate"],
                review("/jobs/mutate", job),
                DecisionView(world.view, {}),
                WebhookSettings(("volcano",)),
            )
            assert mutated == json.loads(expected.answer)["response"]
            assert len(patch_of(mutated)) > 10_000
            assert (await world.ask("/jobs/validate", many_tasks(200)))["status"]["code"] == 400
            assert world.review_queue.worker is not None and world.review_queue.worker.pid != os.getpid()
            assert (world.answered("/jobs/mutate", "allowed"), world.answered("/jobs/validate", "denied")) == (1, 1)

    run(scenario)


@pytest.mark.usefixtures("forbid_large_decisions")
def test_a_review_of_few_bytes_with_many_objects_is_large_too() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            body = review("/jobs/validate", {"metadata": {"name": "x"}, "spec": {"tasks": [{}] * 1000}})
            assert len(body) < MAX_INLINE_BYTES
            assert (await world.post("/jobs/validate", body))[0] == 200
            assert world.review_queue.worker is not None

    run(scenario)


async def stopped_worker(world: World) -> int:
    """The process id of the worker, which has started and is stopped by a signal."""
    await world.post("/jobs/validate", large())
    assert world.review_queue.worker is not None
    pid = world.review_queue.worker.pid
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_small_reviews_do_not_start_the_worker() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            assert not (await world.ask("/jobs/validate", many_tasks(20)))["allowed"]
            assert world.review_queue.worker is None

    run(scenario)


def test_small_reviews_are_answered_while_large_ones_wait() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            worker = await stopped_worker(world)
            big = [asyncio.create_task(world.post("/jobs/validate", large())) for _ in range(10)]
            while len(world.review_queue._queued) < 9:
                await asyncio.sleep(0.01)
            assert (await world.ask("/queues/validate", {"metadata": {"name": "q"}, "spec": {}}))["allowed"]
            assert not any(task.done() for task in big)
            os.kill(worker, signal.SIGCONT)
            assert [status for status, _ in await asyncio.gather(*big)] == [200] * 10

    run(scenario)


def test_a_large_review_sees_the_queues_of_the_watch_their_changes_and_undelivered_ones() -> None:
    async def scenario() -> None:
        async with running_server() as world:

            async def problem(queue: str) -> str:
                answer = await world.ask("/podgroups/validate", {**group(queue), "x": "x" * MAX_INLINE_BYTES})
                return str(answer.get("status", {}).get("message", ""))

            for number in range(3 * BATCH_SIZE):
                world.queue(f"q{number}", parent="p")
            assert await problem("q7") == ""
            assert "not found" in await problem("p")
            world.queue("p")
            assert "has 300 child queues" in await problem("p")
            world.queue("q7", state="Closed")
            assert "status is `Closed`" in await problem("q7")
            assert "has 299 child queues" in await problem("p")
            world.view.delete(QUEUE, "", "q7")
            assert "not found" in await problem("q7")
            world.api.answer("GET", f"{QUEUES}/young", {"metadata": {"name": "young"}, "spec": {"weight": 1}})
            assert await problem("young") == ""

    run(scenario)


def test_a_large_body_that_is_not_a_review_is_a_bad_request() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            status, answer = await world.post("/queues/mutate", b"[" * 100_000)
            assert (status, answer[:25]) == (400, b"not an AdmissionReview: E")
            assert world.answered("/queues/mutate", "malformed") == 1

    run(scenario)


def test_a_worker_that_dies_fails_its_review_and_the_next_one_answers_those_that_wait() -> None:
    async def scenario() -> None:
        async with running_server() as world:
            worker = await stopped_worker(world)
            first = asyncio.create_task(world.post("/jobs/validate", large()))
            while not world.review_queue.deciding:
                await asyncio.sleep(0.01)
            second = asyncio.create_task(world.post("/jobs/validate", large()))
            os.kill(worker, signal.SIGKILL)
            assert await first == (500, b"the worker process was killed by SIGKILL")
            assert (await second)[0] == 200
            assert world.answered("/jobs/validate", "failed") == 1

    run(scenario)


def test_a_review_beyond_the_queue_limit_gets_an_http_error_and_is_counted() -> None:
    async def scenario() -> None:
        async def busy(path: str, body: bytes, read: Iterable[Queue], settings: WebhookSettings) -> ReviewOutcome:
            raise QueueFullError("32 large reviews wait already")

        async with running_server() as world:
            world.review_queue.decide = busy  # type: ignore[method-assign]
            assert await world.post("/jobs/validate", large()) == (503, b"32 large reviews wait already")
            assert world.answered("/jobs/validate", "busy") == 1

    run(scenario)
