"""Kernels of precedence counts that other packages call: pure functions on arrays."""

from surerec.precedence._kernels import compress_rows, count_rows, find_spans
from surerec.precedence._rows import load, pick, read_rows

__all__ = ["compress_rows", "count_rows", "find_spans", "load", "pick", "read_rows"]
