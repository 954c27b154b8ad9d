"""Certificates from a Secret or from files, and the CA bundles of the webhook configurations."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.cluster.kube.admission.bundle_injector import BundleInjector
from scheduler.cluster.kube.serving.certificate_sources import (
    CertificateSource,
    FileSource,
    SecretSource,
    ServingCertificate,
)
from scheduler.cluster.kube.serving.certificates import CertificateError, from_pem, renewed, to_pem
from scheduler.cluster.kube.serving.tls import CertificateReloader, ServingContext
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.observability.role_metrics import AdmissionMetrics
from scheduler.webhooks.routes import ServiceReference, configuration, routes
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving

SECRETS = "/api/v1/namespaces/volcano-system/secrets"
HOSTS = ("admission.volcano-system.svc",)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROUTES = [routes()["/queues/mutate"], routes()["/queues/validate"]]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{REGISTRATION}/validatingwebhookconfigurations"
MUTATING = f"{REGISTRATION}/mutatingwebhookconfigurations"
VALIDATE = f"{VALIDATING}/volcano-admission-service-queues-validate"
MUTATE = f"{MUTATING}/volcano-admission-service-queues-mutate"


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


class Store:
    """Objects by path with resource versions and conflicts, as an API server stores them."""

    def __init__(self, api: FakeApi) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.before_write: list[Callable[[], None]] = []
        """Writes of other processes directly before one of our writes."""
        self._version = 0
        api.on("GET", ".*", self._get)
        api.on("POST", ".*", self._post)
        api.on("PATCH", ".*", self._patch)

    def put(self, path: str, obj: dict[str, Any]) -> None:
        self._version += 1
        obj.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = obj

    async def _get(self, call: Call, request: web.Request) -> Answer:
        return self.objects.get(call.path) or refusal(404, "NotFound")

    async def _post(self, call: Call, request: web.Request) -> Answer:
        self._others()
        path = f"{call.path}/{call.body['metadata']['name']}"
        if path in self.objects:
            return refusal(409, "AlreadyExists")
        made: dict[str, Any] = call.body
        self.put(path, made)
        return made

    async def _patch(self, call: Call, request: web.Request) -> Answer:
        self._others()
        obj = self.objects.get(call.path)
        if obj is None:
            return refusal(404, "NotFound")
        version = obj["metadata"]["resourceVersion"]
        if isinstance(call.body, list):
            test, *operations = call.body
            if test["value"] != version:
                return refusal(422, "Invalid", "the server rejected our request: testing failed")
            for operation in operations:
                _, _, index, _, key = operation["path"].split("/")
                obj["webhooks"][int(index)]["clientConfig"][key] = operation["value"]
        else:
            if call.body["metadata"]["resourceVersion"] != version:
                return refusal(409, "Conflict")
            obj = {**obj, "data": {**obj.get("data", {}), **call.body["data"]}}
        self.put(call.path, obj)
        return obj

    def _others(self) -> None:
        if self.before_write:
            self.before_write.pop(0)()


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


class World:
    def __init__(self, api: FakeApi, client: ApiClient) -> None:
        self.api = api
        self.client = client
        self.clock = Clock()
        self.store = Store(api)
        self.secret = f"{SECRETS}/mine"

    def replica(self) -> SecretSource:
        return SecretSource(self.client, "volcano-system", "mine", HOSTS, self.clock)

    def bundles(self, url: str = "") -> BundleInjector:
        return BundleInjector(self.client, ROUTES, url, "volcano-system", AdmissionMetrics())

    def writes(self) -> list[Call]:
        return [call for call in self.api.calls if call.method != "GET"]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with serving() as (api, client):
        yield World(api, client)


def encoded(data: dict[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


# --- the Secret ---
def test_replicas_share_the_certificate_of_the_first_one() -> None:
    async def scenario() -> None:
        async with world() as w:
            one, other = await w.replica().read(), await w.replica().read()
            assert one == other
            assert len(w.writes()) == 1
            stored = w.store.objects[w.secret]["data"]
            from_pem({key: base64.b64decode(value) for key, value in stored.items()})

    run(scenario)


def test_two_replicas_that_start_together_agree_on_one_certificate() -> None:
    async def scenario() -> None:
        async with world() as w:
            theirs = encoded(to_pem(renewed(None, HOSTS, BEGIN)))
            w.store.before_write.append(lambda: w.store.put(w.secret, {"data": theirs}))
            assert encoded({"c": (await w.replica().read()).certificate})["c"] == theirs["tls.crt"]

    run(scenario)


def test_an_empty_secret_is_filled_and_keeps_its_labels() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(w.secret, {"metadata": {"labels": {"app": "chart"}}})
            pair = await w.replica().read()
            stored = w.store.objects[w.secret]
            assert stored["metadata"]["labels"] == {"app": "chart"}
            assert base64.b64decode(stored["data"]["tls.crt"]) == pair.certificate

    run(scenario)


@pytest.mark.parametrize("data", [{"tls.crt": "!"}, {"tls.crt": "QQ=="}, {"other": "QQ=="}])
def test_an_unusable_secret_is_replaced(data: dict[str, str]) -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(w.secret, {"data": data})
            pair = await w.replica().read()
            assert pair.certificate.startswith(b"-----BEGIN CERTIFICATE-----")

    run(scenario)


def test_one_replica_renews_and_the_other_reads_the_renewal() -> None:
    async def scenario() -> None:
        async with world() as w:
            one, other = w.replica(), w.replica()
            first = await one.read()
            w.clock.now += timedelta(days=250)
            second = await other.read()
            assert second.certificate != first.certificate
            assert second.bundle == first.bundle
            assert await one.read() == second
            assert len(w.writes()) == 2

    run(scenario)


def test_endless_conflicts_on_the_secret_are_reported() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(w.secret, {})
            w.store.before_write = [lambda: w.store.put(w.secret, {})] * 10
            with pytest.raises(CertificateError, match="volcano-system/mine was changed by others 5 times"):
                await w.replica().read()

    run(scenario)


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [(403, "Forbidden", "cannot create secrets"), (404, "NotFound", "no such namespace")],
)
def test_a_missing_permission_or_namespace_is_reported(status: int, reason: str, message: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("POST", SECRETS, {"message": message, "reason": reason}, status)
            with pytest.raises(ApiError, match=f"{status} {reason}: {message}"):
                await w.replica().read()

    run(scenario)


# --- the webhook configurations ---
def stored(route: str, bundle: str = "", **address: Any) -> dict[str, Any]:
    at = ServiceReference("volcano-system", "admission")
    made = configuration(routes()[route], address.get("url", at), bundle, "volcano-system")
    if not bundle:
        del made["webhooks"][0]["clientConfig"]["caBundle"]
    return made


def test_configurations_of_the_chart_get_the_ca_bundle_and_no_other_change() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(MUTATE, stored("/queues/mutate"))
            w.store.put(VALIDATE, stored("/queues/validate", "b3RoZXI="))
            assert await w.bundles().ensure(b"CA")
            for path, route in ((MUTATE, "/queues/mutate"), (VALIDATE, "/queues/validate")):
                assert w.store.objects[path]["webhooks"] == stored(route, "Q0E=")["webhooks"]
            written = len(w.writes())
            assert await w.bundles("https://elsewhere:1").ensure(b"CA")
            assert len(w.writes()) == written == 2

    run(scenario)


def test_without_a_chart_missing_configurations_are_created_with_the_current_url() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(MUTATE, stored("/queues/mutate", "Q0E=", url="https://10.0.0.1:1"))
            assert await w.bundles("https://10.0.0.1:2").ensure(b"CA")
            for path, route in ((MUTATE, "/queues/mutate"), (VALIDATE, "/queues/validate")):
                wanted = stored(route, "Q0E=", url="https://10.0.0.1:2")
                assert w.store.objects[path]["webhooks"] == wanted["webhooks"]

    run(scenario)


def test_with_a_service_missing_configurations_are_waited_for() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(VALIDATE, stored("/queues/validate"))
            reloader = w.bundles()
            assert not await reloader.ensure(b"CA")
            assert w.store.objects[VALIDATE]["webhooks"][0]["clientConfig"]["caBundle"] == "Q0E="
            w.store.put(MUTATE, stored("/queues/mutate"))
            assert await reloader.ensure(b"CA")

    run(scenario)


def test_a_concurrent_update_of_a_configuration_is_not_overwritten() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.store.put(MUTATE, stored("/queues/mutate", "Q0E="))
            w.store.put(VALIDATE, stored("/queues/validate"))
            theirs = stored("/queues/validate")
            theirs["webhooks"][0]["timeoutSeconds"] = 30
            w.store.before_write.append(lambda: w.store.put(VALIDATE, theirs))
            reloader = w.bundles()
            assert not await reloader.ensure(b"CA")
            assert await reloader.ensure(b"CA")
            webhook = w.store.objects[VALIDATE]["webhooks"][0]
            assert (webhook["timeoutSeconds"], webhook["clientConfig"]["caBundle"]) == (30, "Q0E=")

    run(scenario)


# --- both together ---
class FixedSource:
    """A certificate source with given answers."""

    def __init__(self, pair: ServingCertificate) -> None:
        self.pair: ServingCertificate | CertificateError = pair

    async def read(self) -> ServingCertificate:
        if isinstance(self.pair, CertificateError):
            raise self.pair
        return self.pair


def reloader(w: World, source: CertificateSource) -> tuple[CertificateReloader, ServingContext]:
    tls = ServingContext()
    return CertificateReloader(source, w.bundles(), tls, AdmissionMetrics().certificate_end), tls


def a_serving_certificate() -> ServingCertificate:
    pem = to_pem(renewed(None, HOSTS, BEGIN))
    return ServingCertificate(pem["tls.crt"], pem["tls.key"], pem["ca.crt"])


def test_the_last_valid_certificate_stays_in_use() -> None:
    async def scenario() -> None:
        async with world() as w:
            source = FixedSource(ServingCertificate(b"junk", b"junk", b""))
            kept, tls = reloader(w, source)
            assert not await kept.load()
            assert (tls.ready, "cannot be served" in kept.problem) == (False, True)
            good = source.pair = a_serving_certificate()
            assert await kept.load()
            assert (tls.ready, kept.problem) == (True, "")
            source.pair = ServingCertificate(good.certificate, a_serving_certificate().key, b"")
            assert await kept.load()
            assert "cannot be served" in kept.problem
            source.pair = CertificateError("gone")
            assert await kept.load()
            assert kept.problem == "gone"

    run(scenario)


def test_with_certificates_from_files_no_configuration_is_modified() -> None:
    async def scenario() -> None:
        async with world() as w:
            pair = a_serving_certificate()
            kept, _ = reloader(w, FixedSource(ServingCertificate(pair.certificate, pair.key, b"")))
            await kept.load()
            assert await kept.ensure_trust()
            assert w.api.calls == []

    run(scenario)


def test_certificate_files_are_reloaded(tmp_path: Path) -> None:
    async def scenario() -> None:
        paths = [tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")]
        source = FileSource(*map(str, paths))
        with pytest.raises(CertificateError, match=r"ca\.crt: No such file"):
            await source.read()
        for pair in (a_serving_certificate(), a_serving_certificate()):
            for path, content in zip(paths, (pair.certificate, pair.key, pair.bundle), strict=True):
                path.write_bytes(content)
            assert await source.read() == pair
        assert (await FileSource(str(paths[0]), str(paths[1]), "").read()).bundle == b""

    run(scenario)
