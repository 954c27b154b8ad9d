"""Real nodes for tests: kubelets, containerd and images that are made here, beside the control plane of the tests."""
