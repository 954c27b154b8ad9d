"""A cluster of kind with the image and the chart: ``pytest -m kind``. ``make test`` leaves it out.

``tests/integration/test_kind.py`` tests the scripts without a container engine.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.kind


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster with the chart, deleted at the end; skips the tests if no container engine answers."""
    engine = subprocess.run([ROOT / "deploy" / "kind" / "engine.sh"], capture_output=True, text=True, check=False)
    if engine.returncode != 0:
        pytest.skip(engine.stderr.strip().removeprefix("error: "))
    try:
        make("kind-up")
        yield
    finally:
        make("kind-down")


@pytest.mark.usefixtures("cluster")
def test_helm_test_and_the_examples_have_their_described_results() -> None:
    make("kind-test")


def make(target: str) -> None:
    subprocess.run(["make", target], cwd=ROOT, check=True)
