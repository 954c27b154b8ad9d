"""JobFlows: vcjobs that wait for one another, made from JobTemplates."""

from scheduler.controllers.jobflow.controller import JobFlowController, JobTemplateController

__all__ = ["JobFlowController", "JobTemplateController"]
