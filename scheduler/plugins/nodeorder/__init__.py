"""The nodeorder plugin: scores nodes as kube-scheduler does."""

from scheduler.plugins.nodeorder import plugin
