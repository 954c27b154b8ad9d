"""Admission of vcjobs: ``mutate`` fills in, ``validate`` refuses.

``job_problems`` is ``validate`` for a job that is yet to be made from a template. The texts of refusals are Volcano's
and Kubernetes', strung together in Volcano's order; those of our own name the field and say what to write instead.
"""

from scheduler.webhooks.job.mutate import defaulted, mutate
from scheduler.webhooks.job.validate import job_problems, validate

__all__ = ["defaulted", "job_problems", "mutate", "validate"]
