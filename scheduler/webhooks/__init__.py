"""Admission: what is filled in and what is refused before an object is stored.

Pure functions of the request and of what is known of the cluster; the HTTPS server is in ``scheduler.cluster.kube``,
and ``simulate`` calls the same functions.
"""
