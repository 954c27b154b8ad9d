"""The API for tenants in the process of the scheduler: its certificate, and the trust between it and API servers."""

import asyncio
import base64
import ssl
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from scheduler.cluster.kube.scheduler.visibility.answers import Worker
from scheduler.cluster.kube.scheduler.visibility.role import (
    API_SERVICE,
    ApiServiceBundle,
    Visibility,
    VisibilitySettings,
)
from scheduler.cluster.kube.scheduler.visibility.server import PREFIX
from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles, CertificateSecret
from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from scheduler.framework.session import Session
from scheduler.observability.overview import Overview, QueueRow
from scheduler.observability.role_metrics import RoleMetrics
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving

SECRET = "/api/v1/namespaces/volcano-system/secrets/certificate"
CREATED = CertificateSecret("certificate", ("scheduler.volcano-system.svc",))
IDLE = Worker(("true",), {})
"""Answers nothing."""
PROXY = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
BUNDLE = b"-----BEGIN CERTIFICATE-----"


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


class Objects:
    """An APIService and an empty Secret, which can be patched."""

    def __init__(self, api: FakeApi) -> None:
        self.service: dict[str, Any] = {"spec": {"caBundle": ""}}
        self.secret: dict[str, Any] = {"metadata": {"resourceVersion": "1"}}
        self.failing = False
        for path in (API_SERVICE, SECRET):
            api.on("GET", path, self._get)
            api.on("PATCH", path, self._patch)

    def _at(self, path: str) -> dict[str, Any]:
        return self.service if path == API_SERVICE else self.secret

    async def _get(self, call: Call, request: web.Request) -> Answer:
        return refusal(500, "InternalError") if self.failing else self._at(call.path)

    async def _patch(self, call: Call, request: web.Request) -> Answer:
        found = self._at(call.path)
        for key in ("spec", "data"):
            found.setdefault(key, {}).update(call.body.get(key, {}))
        return found


def test_the_authority_is_written_once_and_restored_when_it_is_removed() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            objects = Objects(api)
            bundle = ApiServiceBundle(client)

            assert [await bundle.ensure(BUNDLE) for _ in range(3)] == [True] * 3
            assert len(api.to("PATCH", API_SERVICE)) == 1
            objects.service["spec"]["caBundle"] = ""
            assert await bundle.ensure(BUNDLE)
            assert objects.service["spec"]["caBundle"] == base64.b64encode(BUNDLE).decode()

    run(scenario)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_api_service_that_cannot_be_written_is_reported(status: int) -> None:
    async def scenario() -> None:
        async with serving() as (api, client):

            async def refuse(call: Call, request: web.Request) -> Answer:
                return refusal(status, "Refused")

            api.on("GET", API_SERVICE, refuse)
            assert not await ApiServiceBundle(client).ensure(BUNDLE)

    run(scenario)


def test_it_serves_with_a_certificate_that_the_api_service_trusts() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            objects = Objects(api)
            api.answer("GET", PROXY, {"data": {}})
            settings = VisibilitySettings("127.0.0.1", 0, "volcano-system", CREATED, IDLE)
            visibility = Visibility(settings, client, RoleMetrics())
            await visibility.start()
            try:
                while not objects.service["spec"]["caBundle"]:
                    await asyncio.sleep(0.01)
                pem = base64.b64decode(objects.service["spec"]["caBundle"]).decode()
                name = "scheduler.volcano-system.svc"
                trusts_ca = ssl.create_default_context(cadata=pem)
                url = f"https://127.0.0.1:{visibility.port}{PREFIX}"
                async with aiohttp.ClientSession() as session:
                    async with session.get(url, ssl=trusts_ca, server_hostname=name) as answer:
                        assert (await answer.json())["kind"] == "APIResourceList"
                    with pytest.raises(aiohttp.ClientConnectorError):
                        await session.get(url, ssl=ssl.create_default_context(), server_hostname=name)
            finally:
                await visibility.close()

    run(scenario)


def test_scheduling_goes_on_while_the_api_server_refuses_everything() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            objects = Objects(api)
            objects.failing = True
            settings = VisibilitySettings("127.0.0.1", 0, "volcano-system", CREATED, IDLE)
            visibility = Visibility(settings, client, RoleMetrics())
            await visibility.start()
            while not api.calls:
                await asyncio.sleep(0.01)
            await visibility.close()

    run(scenario)


def overview_of_a_session(session: Session) -> Overview:
    raise AssertionError("a standby has no sessions")


def test_the_page_of_a_standby_is_made_from_a_copy_of_the_cluster() -> None:
    listed = Overview(7.0, (QueueRow("gold", "", "Open", 1),))
    body = msgspec.json.encode(listed).decode()
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    question = json.loads(line)\n"
        f"    body = json.loads({body!r}) if question.get('kind') == 'overview' else {{}}\n"
        "    print(json.dumps({'status': 200, 'body': body, 'number': question['number']}), flush=True)\n"
    )
    worker = Worker((sys.executable, "-c", program), {})

    async def scenario() -> None:
        async with serving() as (api, client):
            objects = Objects(api)
            api.answer("GET", PROXY, {"data": {}})
            status = {"authenticated": True, "user": {"username": "admin"}}
            api.answer("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"status": status})
            api.answer("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"status": {"allowed": True}})
            settings = VisibilitySettings("127.0.0.1", 0, "volcano-system", CREATED, worker, overview_of_a_session)
            visibility = Visibility(settings, client, RoleMetrics(), lambda: True)
            await visibility.start()
            try:
                while not objects.service["spec"]["caBundle"]:
                    await asyncio.sleep(0.01)
                pem = base64.b64decode(objects.service["spec"]["caBundle"]).decode()
                options: dict[str, Any] = {
                    "ssl": ssl.create_default_context(cadata=pem),
                    "server_hostname": "scheduler.volcano-system.svc",
                    "headers": {"Authorization": "Bearer token"},
                }
                url = f"https://127.0.0.1:{visibility.port}{PREFIX}/pages"
                async with aiohttp.ClientSession() as session, session.get(url, **options) as page:
                    found = await page.json()
                assert (found["at"], set(found["queues"]["set"])) == (7.0, {"gold"})
            finally:
                await visibility.close()

    run(scenario)


def test_a_certificate_in_files_is_served_and_without_an_authority_nothing_is_written(tmp_path: Path) -> None:
    pem = to_pem(renewed(None, CREATED.hosts, datetime.now(UTC)))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(pem[name])
    files = CertificateFiles(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), "")

    async def scenario() -> None:
        async with serving() as (api, client):
            api.answer("GET", PROXY, {"data": {}})
            settings = VisibilitySettings("127.0.0.1", 0, "volcano-system", files, IDLE)
            visibility = Visibility(settings, client, RoleMetrics())
            await visibility.start()
            try:
                while not api.to("GET", PROXY):
                    await asyncio.sleep(0.01)
                trusts_ca = ssl.create_default_context(cadata=pem["ca.crt"].decode())
                url = f"https://127.0.0.1:{visibility.port}{PREFIX}"
                options: dict[str, Any] = {"ssl": trusts_ca, "server_hostname": CREATED.hosts[0]}
                async with aiohttp.ClientSession() as session, session.get(url, **options) as answer:
                    assert answer.status == 200
            finally:
                await visibility.close()
            assert {call.path for call in api.calls} == {PROXY}  # neither a Secret nor the APIService

    run(scenario)
