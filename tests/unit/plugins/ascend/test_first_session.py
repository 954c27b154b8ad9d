"""The costs of the first session of a process, besides its decisions."""

import subprocess
import sys

_SESSION = """
import sys
import scheduler.actions, scheduler.plugins
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import World
from tests.unit.plugins.ascend.chips import device_info, job, npu_node
world = World(npu_node("n1"), device_info("n1", list(range(8))), job("train", 8))
before = set(sys.modules)
assert world.run(parse_configuration(DEFAULT_CONFIGURATION)).bound
print(*sorted(name for name in set(sys.modules) - before if name.startswith("numpy")))
"""


def test_the_first_session_imports_no_part_of_numpy() -> None:
    """The function ``np.unique`` without options imports masked arrays, which takes 15 ms and 3 MiB."""
    ran = subprocess.run([sys.executable, "-c", _SESSION], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == []
