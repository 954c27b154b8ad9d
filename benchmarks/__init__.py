"""The benchmarks behind the figures of the README and of ``docs/performance.md``, and what to profile."""
