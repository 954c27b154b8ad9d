"""tdm: nodes that are on loan by the hour, and Pods that can do with that (Volcano's time division multiplexing)."""

from scheduler.plugins.tdm import details, remedies
from scheduler.plugins.tdm.plugin import Tdm

__all__ = ["Tdm", "details", "remedies"]
