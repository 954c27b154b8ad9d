"""Chips that several Pods share, each with a quota: ``quota`` reads the quotas of jobs and Pods, ``selection`` chooses
chips, ``ledger`` keeps the shares during the session, and ``columns`` filters and scores nodes.
"""
