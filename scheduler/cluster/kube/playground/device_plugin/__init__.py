"""The device plugin of a node with a real kubelet, over the kubelet's gRPC API.

It needs the extra ``device-plugin``.
"""
