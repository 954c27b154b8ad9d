"""Without the extra ``dra`` the CEL runtime cannot be imported: claims with selectors wait, and everything else
works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scheduler.api.names import POD_SCHEDULED
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import NO_RUNTIME
from tests.builders import Raw, group, node, pods
from tests.device_builders import claim, device_class, gpus, named, request, resource_slice

PROGRAM = """\
import sys

sys.modules["cel_expr_python"] = None  # makes the import fail

from scheduler.cli.main import main

main()
"""


def pod_of(name: str, *claims: str) -> list[Raw]:
    return [group(name, "default", 1), *pods(name, 1, "1c", name, resourceClaims=named(*claims))]


def simulated(path: Path, *objects: Raw) -> dict[str, Raw]:
    """The Pods, after a cycle in a process that cannot import the runtime."""
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, "simulate", "-f", str(path), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {each["metadata"]["name"]: each for each in json.loads(done.stdout)["items"] if each["kind"] == "Pod"}


@pytest.mark.slow
def test_a_claim_with_a_cel_selector_waits_with_a_reason_that_names_the_extra(tmp_path: Path) -> None:
    plain, selecting = claim("plain", request()), claim("selecting", request("gpu", "gpu", "true"))
    found = simulated(
        tmp_path / "x.yaml",
        node("n1", "16c+64Gi"),
        resource_slice(gpus(4), "n1"),
        device_class(),
        plain,
        selecting,
        *pod_of("without"),
        *pod_of("plain", "plain"),
        *pod_of("selecting", "selecting"),
    )
    bound = {name: pod["spec"].get("nodeName") for name, pod in found.items()}
    assert bound == {"without-0": "n1", "plain-0": "n1", "selecting-0": None}
    (condition,) = (c for c in found["selecting-0"]["status"]["conditions"] if c["type"] == POD_SCHEDULED)
    assert f"claim default/selecting: selector #0: {NO_RUNTIME}" in condition["message"]
    assert "volcano-py[dra]" in NO_RUNTIME
