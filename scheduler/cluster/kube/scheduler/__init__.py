"""The scheduler role: cycles over what is watched, and their decisions written."""
