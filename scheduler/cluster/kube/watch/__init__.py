"""Objects in: lists and watches."""
