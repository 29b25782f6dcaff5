"""Benchmarks of speed, memory and guarantees; see README.md."""
