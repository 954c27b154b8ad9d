"""The web page of the scheduler, served on this machine with overviews that tests choose, for users with fixed rights.

The bearer token is the name of the user: ``admin`` may do everything, ``alice`` has the ClusterRole ``view`` in the
namespace ``research``, and other users have no rights.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from scheduler.cluster.kube.scheduler.visibility.answers import WorkerAnswer as Answered
from scheduler.cluster.kube.scheduler.visibility.limits import QuestionRates, RateLimit
from scheduler.cluster.kube.scheduler.visibility.overviews import Overviews
from scheduler.cluster.kube.scheduler.visibility.page import WebPage
from scheduler.cluster.kube.scheduler.visibility.server import LIMITS, PREFIX, VisibilityServer
from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from scheduler.cluster.kube.serving.tls import ServingContext
from scheduler.framework.session import Session
from scheduler.observability.connections import Limits
from scheduler.observability.overview import Overview
from scheduler.observability.role_metrics import RoleMetrics, VisibilityMetrics
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, serving

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
USERS = ("admin", "alice", "mallory")


class NoAnswers:
    """Answers no questions; only the page is served."""

    async def explain(self, kind: str, namespace: str, name: str) -> Answered:
        return Answered(503)

    async def queues(self, namespace: str, nothing: bytes) -> Answered:
        return Answered(503)

    async def review(self, namespace: str, objects: str) -> Answered:
        return Answered(503)


@dataclass
class PageServer:
    """A running server."""

    api: FakeApi
    overviews: Overviews
    tls: ssl.SSLContext
    """Trusts the server."""
    port: int
    allowed: dict[str, bool]
    """Maps each user to whether the API server grants the user's rights."""
    server: VisibilityServer
    serving_tls: ServingContext

    def url(self, path: str = "/pages/") -> str:
        return f"https://127.0.0.1:{self.port}{PREFIX}{path}"

    async def start(self) -> None:
        await self.server.start("127.0.0.1", self.port, self.serving_tls)
        self.port = self.server.port

    async def stop(self) -> None:
        await self.server.stop()


def _take(session: Session) -> Overview:
    raise AssertionError("there are no sessions")


async def _list() -> Overview | None:
    return None


def granted(user: str, attributes: dict[str, Any]) -> bool:
    """Whether the user has a right."""
    if user == "admin":
        return True
    return user == "alice" and attributes["namespace"] == "research" and attributes["resource"] == "pages"


@asynccontextmanager
async def page_server(*, limits: Limits = LIMITS, **options: Any) -> AsyncIterator[PageServer]:
    """``options``: the options of ``WebPage``."""
    pem = to_pem(renewed(None, ["127.0.0.1"], datetime.now(UTC)))
    tls = ServingContext(client_certificates=True)
    tls.load(pem["tls.crt"], pem["tls.key"])
    async with serving() as (api, client):
        overviews, metrics = Overviews(_take, _list, lambda: False), VisibilityMetrics(RoleMetrics().registry)
        page = WebPage(client, overviews, metrics, **options)
        often = RateLimit(1000, 1000)
        rates = QuestionRates(often, lambda: RateLimit(1000, 1000))
        server = VisibilityServer(client, NoAnswers(), metrics, page=page, limits=limits, rates=rates, reviews=often)
        trusts_ca = ssl.create_default_context(cadata=pem["ca.crt"].decode())
        made = PageServer(api, overviews, trusts_ca, 0, dict.fromkeys(USERS, True), server, tls)
        await made.start()

        async def review(call: Call, request: web.Request) -> Answer:
            token = call.body["spec"]["token"]
            return {"status": {"authenticated": token in USERS, "user": {"username": token}}}

        async def access(call: Call, request: web.Request) -> Answer:
            user = call.body["spec"]["user"]
            return {
                "status": {"allowed": made.allowed[user] and granted(user, call.body["spec"]["resourceAttributes"])}
            }

        api.on("POST", TOKENS, review)
        api.on("POST", ACCESS, access)
        try:
            yield made
        finally:
            await made.stop()
