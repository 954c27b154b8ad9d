"""An aggregated API of the scheduler for tenants without rights to nodes and queues: why a job waits, the quota of its
queue, and its position there."""
