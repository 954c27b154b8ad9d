"""A real Kubernetes control plane as plain processes on loopback, for the integration tests and the benchmarks.

`build` compiles the binaries with the Go toolchain, `run` starts and stops them. Nothing in `scheduler` imports this
package: it is there to put the program in front of a real API server, never to be part of it.
"""
