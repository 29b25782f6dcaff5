"""The kernels of p-values that other rooms build on: pure functions on arrays, no ids."""

from surerec.conformal._kernels import count_at_most, counts_among, judge, levels_of

__all__ = ["count_at_most", "counts_among", "judge", "levels_of"]
