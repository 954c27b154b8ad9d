"""Lists and watches objects of the API server."""
