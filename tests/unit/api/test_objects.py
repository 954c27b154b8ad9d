"""Owners of Kubernetes objects."""

from scheduler.api.objects import ObjectMeta, OwnerReference, Pod, controller_of, is_controlled_by


def test_the_owner_that_manages_an_object_is_its_controller() -> None:
    owners = [OwnerReference(kind="Node", uid="n"), OwnerReference(kind="Job", name="j", uid="u", controller=True)]
    pod = Pod(metadata=ObjectMeta(name="p", owner_references=owners))

    assert controller_of(pod) is owners[1]
    assert is_controlled_by(pod, "u") and not is_controlled_by(pod, "n")


def test_an_owner_that_does_not_manage_is_no_controller() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", owner_references=[OwnerReference(kind="Job", name="j", uid="u")]))

    assert controller_of(pod) is None
    assert not is_controlled_by(pod, "u")
