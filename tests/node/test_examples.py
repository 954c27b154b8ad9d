"""The files of `deploy/examples` unchanged: their containers run here until each has the result that its comment
describes."""

from typing import Any

import pytest

from tests.integration import examples
from tests.node.stage import Stage

pytestmark = pytest.mark.node

RUN_HERE = (
    examples.vcjob,
    examples.job,
    examples.jobflow,
    examples.mpi,
    examples.deployment,
    examples.statefulset,
    examples.pod,
    examples.podgroup,
    examples.command,
    examples.cronjob,
    examples.queues,
    examples.hypernodes,
)


@pytest.mark.parametrize("example", RUN_HERE, ids=lambda example: example.__name__)
def test_an_example_has_its_described_result(example: Any, stage: Stage) -> None:
    example(stage)
