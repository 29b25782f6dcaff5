"""Named data sets: a catalogue, fetching with checksums, loading, and a generator."""

from surerec.datasets._catalogue import CATALOGUE
from surerec.datasets._entries import Counts, Dataset
from surerec.datasets._fetch import fetch
from surerec.datasets._loading import load_dataset
from surerec.datasets._synthetic import synthetic

__all__ = ["CATALOGUE", "Counts", "Dataset", "fetch", "load_dataset", "synthetic"]
