"""Simulated NPU nodes on a real cluster: carries out what ``scheduler.playground`` decides."""
