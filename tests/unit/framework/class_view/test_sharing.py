"""Classes that request the same and have equal filters and scores share one view."""

from typing import Any

from scheduler.framework.class_view.view import ClassView
from tests.builders import World, configuration, group, node, pod

PLUGINS = ["predicates", "nodeorder", "binpack"]


def views(*changes: dict[str, Any], plugins: list[str] = PLUGINS) -> list[ClassView]:
    """The views of Pods with different images, in jobs of their own; each Pod has some fields changed."""
    tainted = {**node("n2", "8c"), "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
    objects = [node("n1", "8c"), tainted]
    for i, change in enumerate(changes):
        raw = pod(f"p{i}", "1c", f"g{i}")
        raw["spec"]["containers"][0] |= {"image": f"image-{i}"} | change.pop("container", {})
        raw["spec"] |= change
        objects += [group(f"g{i}"), raw]
    session = World(objects).session(configuration(plugins))
    jobs = [session.jobs[f"default/g{i}"] for i in range(len(changes))]
    return [session.view(task.cls, job) for job in jobs for task in job.tasks()]


def test_classes_with_different_images_share_a_view() -> None:
    first, second = views({}, {})
    assert first is second


def test_what_filters_and_scores_read_separates_views() -> None:
    requests = {"resources": {"requests": {"cpu": "2"}}}
    found = views(
        {},
        {"container": requests},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        {"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}},
        {"nodeSelector": {"kubernetes.io/hostname": "n1"}},
    )
    assert len({id(view) for view in found}) == len(found)


def test_a_plan_made_for_one_class_continues_with_another() -> None:
    tasks = [pod(f"p{i}", "1c", f"g{i}") for i in range(4)]
    for i, raw in enumerate(tasks):
        raw["spec"]["containers"][0]["image"] = f"image-{i}"
    world = World([node("n1", "4c"), node("n2", "4c"), *(group(f"g{i}") for i in range(4)), *tasks])
    decisions = world.run(configuration(["predicates", "binpack"])).decisions
    assert [bind.node for bind in decisions.binds] == ["n1"] * 4
