"""Admission: mutation and validation of objects before they are stored.

Pure functions of the request, the settings and the view of the cluster. The HTTPS server that calls them is in
``scheduler.cluster.kube.admission``; ``simulate`` calls the same functions.
"""
