"""What is measured: each function takes its job's options and gives figures.

One process runs one of them once (see benchmarks.contestant), and a module imports one peer, so
that no contestant carries the weight of another.
"""
