"""The domain in plain data: resources, tasks, jobs, queues, nodes, reasons, decisions and well-known names.

Nothing here does I/O and nothing here imports the rest of the program; every other package may import this one.
"""
