"""The accounting of queues, and the refusals of the queue plugins (proportion, capacity, overcommit, capacity-card)."""
