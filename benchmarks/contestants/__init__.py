"""The measured functions: each has the options of its job and returns figures.

One process runs one of them once (see benchmarks.contestant), and a module imports one peer, so
that no contestant carries the weight of another.
"""
