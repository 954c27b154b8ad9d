"""Admission of JobTemplates: jobs made from them must be able to start. Volcano has no such webhook."""

from scheduler.api.batch import JobTemplate
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, WebhookSettings
from scheduler.webhooks.decoding import spec_validator
from scheduler.webhooks.job import template_problem


@spec_validator(JobTemplate)
def validate(template: JobTemplate, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    """Why no job made from the template can start, or ""."""
    return template_problem(template.spec, settings)
