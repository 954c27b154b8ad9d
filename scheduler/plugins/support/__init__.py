"""Code that several plugins share: Pod counts per topology domain, the accounting of queues, scores by utilization, and
the reporting of invalid fields. No module here is a plugin. Plugins import this package and not each other."""
