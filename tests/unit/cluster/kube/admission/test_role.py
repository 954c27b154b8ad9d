"""The liveness probe of the admission server, and how often it checks its certificates."""

import asyncio
from typing import cast

import pytest

from scheduler.cluster.kube.admission.role import AdmissionProcess, RoleSettings
from scheduler.cluster.kube.process import liveness
from scheduler.cluster.kube.process.reload import ReloadedFile
from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.webhooks.contract import WebhookSettings
from scheduler.webhooks.resource_groups import parse_resource_groups
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import StaticCredentials, healthz, serving, until


def test_health_fails_when_certificates_are_no_longer_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving() as (api, _):
            api.answer("GET", "/api.*", {"metadata": {"resourceVersion": "1"}, "items": []})
            settings = RoleSettings((), CertificateFiles("no/such", "file", ""), "ns", health_address="127.0.0.1:0")
            role = AdmissionProcess(
                settings,
                WebhookSettings(),
                ReloadedFile("", parse_resource_groups),
                cast("Credentials", StaticCredentials(api.url)),
            )
            attempts, hung = 0, asyncio.Event()

            async def loads_once_and_hangs() -> bool:
                nonlocal attempts
                attempts += 1
                if attempts == 2:
                    hung.set()
                    await asyncio.Event().wait()
                return False

            monkeypatch.setattr(role._certificates, "load", loads_once_and_hangs)
            running = asyncio.create_task(role.run())
            await until(hung.is_set)
            assert await healthz(role.process.server) == (200, "ok")
            monkeypatch.setattr(liveness, "STUCK", 0.0)
            status, text = await healthz(role.process.server)
            assert status == 503 and text.startswith("starting: no progress for ")
            role.process.stop()
            assert await running == 0

    virtual_time.run(scenario())


@pytest.mark.parametrize(("trusted", "least", "most"), [(True, 4, 4), (False, 12, 40)])
def test_certificates_are_checked_four_times_a_minute_and_more_often_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, trusted: bool, least: int, most: int
) -> None:
    checks = 0

    async def scenario() -> None:
        settings = RoleSettings((), CertificateFiles("no/such", "file", ""), "ns")
        groups = ReloadedFile("", parse_resource_groups)
        role = AdmissionProcess(
            settings, WebhookSettings(), groups, cast("Credentials", StaticCredentials("http://127.0.0.1:1"))
        )

        async def ensure_trust() -> bool:
            nonlocal checks
            checks += 1
            return trusted

        monkeypatch.setattr(role._certificates, "ensure_trust", ensure_trust)
        maintaining = asyncio.create_task(role._maintain())
        await asyncio.sleep(55.0)
        maintaining.cancel()
        await asyncio.gather(maintaining, return_exceptions=True)

    virtual_time.run(scenario())
    assert least <= checks <= most
