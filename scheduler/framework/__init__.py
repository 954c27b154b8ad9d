"""The interfaces that actions and plugins use: configuration, extension points, Session, Statement, ClassView.

Knows only ``scheduler.api``. An action decides what to try in which order; plugins answer the questions it asks; the
Statement records what was decided so that it can be undone exactly.
"""
