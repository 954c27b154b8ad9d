"""kube-scheduler's words for what is wrong with devices and claims."""

from typing import Final

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
