"""The container image: what it contains, how it is made smaller, and what describes it.

The build stage of the Dockerfile runs these modules with the Python of the image, so they import only the standard
library.
"""
