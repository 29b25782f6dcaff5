"""Kernels of precedence counts that kernels of other rooms call: pure functions on arrays."""

from surerec.precedence._kernels import count_rows, find_spans
from surerec.precedence._rows import load, pick

__all__ = ["count_rows", "find_spans", "load", "pick"]
