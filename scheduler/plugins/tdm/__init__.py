"""The plugin tdm: revocable nodes that Pods may use during certain hours (Volcano's time division multiplexing)."""

from scheduler.plugins.tdm import remedies
from scheduler.plugins.tdm.plugin import Tdm
