"""The report on a run: what came out, beside the paper, in words, tables and figures."""

from surerec.experiments._report._write import write_report

__all__ = ["write_report"]
