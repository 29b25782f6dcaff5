"""Checks of `make check` and `make package` beyond standard tools."""
