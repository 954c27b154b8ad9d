"""The behaviour of Volcano's scheduler, controllers and webhooks on a real API server, compared with ours.

Each directory holds manifests, the scheduler's configuration, the description and the steps of a scenario (`meta.yaml`,
see `drive`), and the outcome on which three runs of Volcano agreed. Scenarios that need only a scheduler are in
`tests/scenarios`, where they need no API server.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.compare import answers, differences
from tests.conformance.drive import Play
from tests.conformance.stage import Stage

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
HERE = Path(__file__).parent
NAMES = sorted(directory.parent.name for directory in HERE.glob("*/expected.json"))


@pytest.mark.parametrize("name", NAMES)
def test_does_as_volcano(name: str, stage: Stage) -> None:
    """Volcano was recorded three times, and differences between its runs were removed, so our program may run twice."""
    assert not (problems := differing(name, stage) and differing(name, stage)), "\n".join(problems)


def differing(name: str, stage: Stage) -> list[str]:
    """The differences from the record when the scenario is played."""
    meta: Raw = yaml.safe_load((HERE / name / "meta.yaml").read_text(encoding="utf-8"))
    expected: Raw = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))

    def agrees(label: str, facts: Raw) -> bool:
        return not differences(name, expected, facts, label)

    stage.prepare(HERE / name, meta)
    found = Play(stage, HERE / name, meta, agrees).perform()
    assert not (ended := stage.ended()), "\n".join(ended)
    problems = [*differences(name, expected, found), *answers(name, expected, found)]
    for label, facts in found["observations"].items():
        if label != "admitted":
            problems += [f"observed as {label!r}: {text}" for text in differences(name, expected, facts, label)]
    return [f"{meta['title']}:", *problems] if problems else []
