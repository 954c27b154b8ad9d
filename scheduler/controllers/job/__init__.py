"""The controller of vcjobs."""
