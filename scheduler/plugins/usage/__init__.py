"""The plugin usage: filters and scores nodes by their measured load (Volcano's usage plugin)."""

from scheduler.plugins.usage.plugin import Usage
