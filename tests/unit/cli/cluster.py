"""Runs the command line against an API server in this process."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from aiohttp import web
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.unit.cluster.kube.fake_api import FakeApi

Raw = dict[str, Any]
BATCH = "/apis/batch.volcano.sh/v1alpha1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
FLOW = "/apis/flow.volcano.sh/v1alpha1"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
JOBS = f"{BATCH}/namespaces/default/jobs"
GROUPS = f"{SCHEDULING}/namespaces/default/podgroups"
COMMANDS = f"{BUS}/namespaces/default/commands"
QUEUES = f"{SCHEDULING}/queues"
ALL_GROUPS = f"{SCHEDULING}/podgroups"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


@dataclass
class Cluster:
    """An API server, and the command line pointed at it. Words after the first two are flags and arguments."""

    api: FakeApi
    kubeconfig: Path

    def holds(self, path: str, *objects: Raw) -> None:
        """Answers a list at this path with the objects, and a get with each. Other paths answer "not found": for
        ``-A``, hold the path without ``namespaces/NAME``, too."""
        self.api.answer("GET", path, {"metadata": {"resourceVersion": "7"}, "items": list(objects)})
        for each in objects:
            self.api.answer("GET", f"{path}/{each['metadata']['name']}", each)

    def completes(self, *words: str) -> list[str]:
        """The words that a shell offers for the last word, with more time than a shell gives."""
        before, incomplete = [*words[:2], "--kubeconfig", str(self.kubeconfig), *words[2:-1]], words[-1]
        with patch("scheduler.cli.completion._SECONDS", 30.0):
            found = ShellComplete(main, {}, "volcano-py", "_VOLCANO_PY_COMPLETE").get_completions(before, incomplete)
        return [item.value for item in found]

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        line = [*arguments[:2], "--kubeconfig", str(self.kubeconfig), *arguments[2:]]
        return CliRunner().invoke(main, line, input=stdin, prog_name="volcano-py")

    def prints(self, *arguments: str, stdin: str | None = None) -> str:
        """The standard output of a command that succeeds."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, (result.stderr, result.exception)
        return result.stdout

    def refuses(self, *arguments: str, code: int = 1) -> str:
        """Returns the standard error of a command that fails, and asserts that there is no other output. ``code``: its
        exit code, 2 for an error of usage."""
        result = self.run(*arguments)
        assert isinstance(result.exception, SystemExit), result.exception
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        return result.stderr


def write_kubeconfig(path: Path, url: str, namespace: str = "") -> None:
    contexts = [
        {
            "name": "here",
            "context": {"cluster": "here", "user": "me", **({"namespace": namespace} if namespace else {})},
        },
        {"name": "there", "context": {"cluster": "here", "user": "me", "namespace": "elsewhere"}},
    ]
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": {"server": url}}],
                "users": [{"name": "me", "user": {}}],
                "contexts": contexts,
                "current-context": "here",
            }
        ),
        encoding="utf-8",
    )


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Runs the server on a separate thread, because a command runs its own event loop."""
    api = FakeApi()
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, api.url)
    try:
        yield Cluster(api, kubeconfig)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def job(name: str, *, namespace: str = "default", status: Raw | None = None, **spec: Any) -> Raw:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "minAvailable": 2,
            "schedulerName": "volcano-py",
            "queue": "default",
            "maxRetry": 3,
            "tasks": [{"name": "worker", "replicas": 3, "template": {"spec": {"containers": [{"name": "main"}]}}}],
            **spec,
        },
        "status": status or {},
    }


def pod_group(name: str, *, queue: str = "default", phase: str = "Pending", owner: str = "", why: str = "") -> Raw:
    owners = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": owner, "controller": True}]
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": why}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            **({"ownerReferences": [{**owners[0], "uid": f"uid-{owner}"}]} if owner else {}),
        },
        "spec": {"minMember": 2, "queue": queue},
        "status": {"phase": phase, **({"conditions": [condition]} if why else {})},
    }
