"""Hours of revocable zones relative to the clock of a World, independent of the local time zone."""

from datetime import datetime

from tests.builders import World

_HOUR = datetime.fromtimestamp(World().cluster.now).hour
ALWAYS = "00:00-00:00"
"""A zone whose start equals its end is always open."""
NEVER = f"{(_HOUR + 6) % 24:02}:00-{(_HOUR + 7) % 24:02}:00"
"""No test runs at this time of day."""
