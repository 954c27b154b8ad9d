"""What a queue has of each card: in its status, in metrics, in explanations."""
