"""The objects that the scheduler watches."""

from scheduler.api.kinds import ATTACHMENT, CSI_DRIVER, CSI_NODE, STORAGE_CAPACITY
from scheduler.cluster.kube.transport.sources import sources


def test_free_storage_is_watched_unless_that_is_turned_off() -> None:
    everything = {source.kind for source in sources()}

    assert {CSI_NODE, CSI_DRIVER, STORAGE_CAPACITY, ATTACHMENT} <= everything
    assert everything - {source.kind for source in sources(csi_storage=False)} == {CSI_DRIVER, STORAGE_CAPACITY}
