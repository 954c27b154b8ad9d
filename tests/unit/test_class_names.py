"""One class, one name: a name says which class it is."""

import ast
from collections import defaultdict
from pathlib import Path

import scheduler

ROOT = Path(scheduler.__file__).parent
OBJECT_AND_MODEL = {"Action", "Device", "HyperNode", "Job", "Queue"}
"""The names of the API that an object of the API and its representation in sessions share."""
INDEPENDENT = "playground"
"""The simulated device plugin reads the formats itself, so it has classes of its own for the same objects."""


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        if relative.parts[0] != INDEPENDENT:
            for each in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                    places[each.name].append(str(relative))
    shared = {name: found for name, found in places.items() if len(found) > 1}

    assert shared.keys() == OBJECT_AND_MODEL, shared
