"""Pod templates in a few words, and what is wrong with them."""

from typing import Any

from scheduler.webhooks.contract import Json
from scheduler.webhooks.job.podtemplate import PodTemplate, check_template
from scheduler.webhooks.reading import read


def problems(template: Json) -> list[str]:
    """Without the common beginning of their paths, and with the longest names in them cut short."""
    return [_shorten(problem) for problem in check_template(read(template, PodTemplate), "w")]


def _shorten(problem: str) -> str:
    text = problem.removeprefix("template.").removeprefix("spec.")
    return text.replace("DuringSchedulingIgnoredDuringExecution", "...").replace("nodeSelectorTerms", "terms")


def pod(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": "x"}], **fields}}


def container(**fields: Any) -> Json:
    return pod(containers=[{"name": "c", "image": "x", **fields}])


def resources(fields: Json) -> Json:
    """Of the one container."""
    return container(resources=fields)


def metadata(fields: Json) -> Json:
    return {"metadata": fields, **pod()}


def volumes(*sources: Json) -> Json:
    """Volumes v0, v1 and so on, unless they have names of their own."""
    return pod(volumes=[{"name": f"v{index}", **source} for index, source in enumerate(sources)])


def mounting(**fields: Any) -> Json:
    """A container beside a volume v, which is a directory, and a volume w, which is a claim."""
    listed = [{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "p"}}]
    return pod(containers=[{"name": "c", "image": "x", **fields}], volumes=listed)


def node_term(requirement: Json) -> Json:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}})
