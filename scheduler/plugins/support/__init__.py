"""What several plugins share, and no plugin itself: Pod counts per topology domain, the accounting of queues, scores by
utilization, and the reporting of invalid fields. Plugins import this package and not each other."""
