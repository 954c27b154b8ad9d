"""Hours of revocable zones as seen from the clock of a World, wherever the tests run."""

from datetime import datetime

from tests.builders import World

_HOUR = datetime.fromtimestamp(World().cluster.now).hour
ALWAYS = "00:00-00:00"
"""A zone that begins and ends at once never ends."""
NEVER = f"{(_HOUR + 6) % 24:02}:00-{(_HOUR + 7) % 24:02}:00"
"""It is not that late in any test."""
