"""Places tasks: on nodes, in HyperNodes, in other task orders."""
