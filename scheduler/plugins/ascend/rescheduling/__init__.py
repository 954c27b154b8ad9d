"""Rescheduling: Pods on faulty hardware are deleted, so that their job resumes elsewhere with the ranks it had.

``policy`` reads what a job wants, ``faults`` finds the Pods that a fault concerns, ``decision`` decides which Pods are
deleted and how, ``effects`` deletes them, ``state`` has the ConfigMaps, and ``rescheduler`` connects them with a
session.
"""
