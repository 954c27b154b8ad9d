"""The domain model as plain data: resources, tasks, jobs, queues, nodes, reasons, decisions and well-known names.

The package does no I/O and imports no other package of the program. Every other package may import it.
"""
