from scheduler.api import batch
from scheduler.api.kinds import SECRET, VCJOB
from scheduler.controllers.owners import owned


def test_what_is_owned_lives_in_the_namespace_of_its_owner_and_names_it_as_its_manager() -> None:
    job = batch.Job()
    job.metadata.name, job.metadata.namespace, job.metadata.uid = "train", "team", "1234"
    assert owned(SECRET, "train-ssh", VCJOB, job, type="Opaque") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "train-ssh",
            "namespace": "team",
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "train",
                    "uid": "1234",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "type": "Opaque",
    }
