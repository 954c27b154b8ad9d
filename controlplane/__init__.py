"""A real Kubernetes control plane as plain processes on loopback, for the integration tests and the benchmarks.

`build` compiles the binaries with the Go toolchain, `run` starts and stops them. Nothing in `scheduler` imports this
package: it runs the program against a real API server, and is not part of the program.
"""
