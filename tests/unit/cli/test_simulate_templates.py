"""The API server of ``simulate --kubeconfig`` validates Pod templates; without it, a note says that they are not."""

import json
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.builders import Raw, node
from tests.unit.cli.cluster import Cluster, write_kubeconfig
from tests.unit.cluster.kube.fake_api import Answer, Call

TEMPLATES = "/api/v1/namespaces/default/podtemplates"
NOTE = "note: Pod templates of vcjobs are not validated; with --kubeconfig FILE an API server validates them\n"
MISSING = "template.spec.containers[0].image: Required value"


def vcjob(name: str, image: str = "", **metadata: object) -> Raw:
    container = {"name": "c", **({"image": image} if image else {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", **metadata},
        "spec": {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [container]}}}]},
    }


def simulate(path: Path, *objects: Raw, options: tuple[str, ...] = ()) -> Result:
    path.write_text(yaml.safe_dump_all([node("n1"), *objects]))
    return CliRunner().invoke(main, ["simulate", "-f", str(path), "-o", "json", *options], prog_name="volcano-py")


@pytest.fixture
def validated(cluster: Cluster) -> Cluster:
    """An API server that refuses a template without an image."""

    async def validate(call: Call, request: web.Request) -> Answer:
        assert call.query["dryRun"] == "All"
        if "image" in call.body["template"]["spec"]["containers"][0]:
            return {}
        field, _, message = MISSING.partition(": ")
        causes = [{"field": field, "message": message}]
        return web.json_response({"message": "is invalid", "details": {"causes": causes}}, status=422)

    cluster.api.on("POST", TEMPLATES, validate)
    return cluster


def test_without_a_kubeconfig_a_note_says_that_templates_are_not_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    result = simulate(tmp_path / "x.yaml", vcjob("a"))
    assert (result.exit_code, result.stderr) == (0, NOTE)
    assert json.loads(result.stdout)["kind"] == "List"
    assert cluster.api.calls == []


@pytest.mark.parametrize("objects", [(), (vcjob("a", uid="u"),)], ids=["no vcjob", "a vcjob of a cluster"])
def test_without_new_vcjobs_there_is_no_note(objects: tuple[Raw, ...], tmp_path: Path) -> None:
    assert simulate(tmp_path / "x.yaml", *objects).stderr == ""


def test_with_a_kubeconfig_an_invalid_template_is_bad_input(tmp_path: Path, validated: Cluster) -> None:
    path = tmp_path / "x.yaml"
    options = ("--kubeconfig", str(validated.kubeconfig))
    good = simulate(path, vcjob("a", "x"), vcjob("b", "x"), options=options)
    assert (good.exit_code, good.stderr, len(validated.api.calls)) == (0, "", 1)
    bad = simulate(path, vcjob("a", "x"), vcjob("b"), options=options)
    text = f"error: {path}, document 3: Job team/b: spec.task[0].{MISSING}.\n"
    assert (bad.exit_code, bad.stderr, bad.stdout) == (2, text, "")


def test_vcjobs_that_a_change_adds_are_validated_but_patches_are_not(tmp_path: Path, validated: Cluster) -> None:
    change = tmp_path / "change.yaml"
    options = ("--kubeconfig", str(validated.kubeconfig), "--what-if", str(change))
    change.write_text(yaml.safe_dump(vcjob("b")))
    bad = simulate(tmp_path / "x.yaml", vcjob("a", "x"), options=options)
    assert (bad.exit_code, f"Job team/b: spec.task[0].{MISSING}" in bad.stderr) == (2, True)
    change.write_text(yaml.safe_dump(vcjob("a", annotations={"volcano-py/what-if": "delete"})))
    good = simulate(tmp_path / "x.yaml", vcjob("a", "x"), options=options)
    assert (good.exit_code, good.stderr) == (0, "")


def test_an_api_server_that_does_not_validate_ends_the_command_with_the_reason(
    tmp_path: Path, cluster: Cluster
) -> None:
    options = ("--kubeconfig", str(cluster.kubeconfig))
    cluster.api.answer("POST", TEMPLATES, {"reason": "Forbidden", "message": "you may not"}, status=403)
    result = simulate(tmp_path / "x.yaml", vcjob("a"), options=options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Failed to simulate: {tmp_path / 'x.yaml'}, document 2: Job team/a: 1 of 1 Pod templates could not be "
        "validated, the first that of spec.task[0]: PodTemplates may not be created in namespace default, not even in "
        "a dry run (403) (403 Forbidden: you may not)\n"
    )


@pytest.mark.slow
def test_an_unreachable_api_server_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, "http://127.0.0.1:1")
    result = simulate(tmp_path / "x.yaml", vcjob("a"), options=("--kubeconfig", str(kubeconfig)))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the API server does not answer (POST /api/v1/namespaces/default/podtemplates: " in result.stderr
