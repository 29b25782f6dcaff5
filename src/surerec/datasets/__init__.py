"""Named data sets, downloaded with checksums, and synthetic data."""

from surerec.datasets._catalogue import CATALOGUE, Counts, Dataset, find_dataset
from surerec.datasets._fetch import fetch
from surerec.datasets._loading import load_dataset
from surerec.datasets._synthetic import is_described, synthetic, synthetic_of

__all__ = [
    "CATALOGUE",
    "Counts",
    "Dataset",
    "fetch",
    "find_dataset",
    "is_described",
    "load_dataset",
    "synthetic",
    "synthetic_of",
]
