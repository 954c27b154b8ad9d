"""Admission of vcjobs: ``mutate`` fills in, ``validate`` refuses and names the Pod templates to be validated.

The texts of refusals are Volcano's and Kubernetes', strung together in Volcano's order; those of our own name the field
and say what to write instead.
"""

from scheduler.webhooks.job.mutate import mutate
from scheduler.webhooks.job.templates import template_verdict
from scheduler.webhooks.job.validate import validate

__all__ = ["mutate", "template_verdict", "validate"]
