"""Admission of vcjobs: ``mutate`` sets defaults; ``validate`` refuses jobs and returns their Pod templates.

The texts of refusals are Volcano's and Kubernetes', in Volcano's order. The texts of additional checks name the field
and a valid value. ``validate_template`` refuses JobTemplates whose jobs can never start. ``quota_warnings`` answers dry
runs.
"""

from scheduler.webhooks.job.dry_run import quota_warnings
from scheduler.webhooks.job.mutate import mutate
from scheduler.webhooks.job.templates import template_checks
from scheduler.webhooks.job.validate import starting_warnings, template_problem, validate, validate_template

__all__ = [
    "mutate",
    "quota_warnings",
    "starting_warnings",
    "template_checks",
    "template_problem",
    "validate",
    "validate_template",
]
