"""Named data sets: a catalogue, fetching with checksums, loading, and a generator."""

from surerec.datasets._cache import Fetched
from surerec.datasets._catalogue import CATALOGUE, find_dataset
from surerec.datasets._described import is_described, synthetic_of
from surerec.datasets._entries import Counts, Dataset
from surerec.datasets._fetch import fetch
from surerec.datasets._loading import load_dataset
from surerec.datasets._synthetic import synthetic

__all__ = [
    "CATALOGUE",
    "Counts",
    "Dataset",
    "Fetched",
    "fetch",
    "find_dataset",
    "is_described",
    "load_dataset",
    "synthetic",
    "synthetic_of",
]
