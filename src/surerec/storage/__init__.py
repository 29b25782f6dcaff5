"""Models on disk: a folder of Arrow and NumPy files with a manifest, without pickle.

**A model folder contains users' histories** with ids and times. Protect it like the data, and
delete it together with them. Counts without histories are stored without histories.

A folder holds one set of statistics, and any number of named recommenders on them::

    model/
      manifest.json                    counts, settings, recommenders, files and checksums
      users-1c7a….arrow                ids with their type
      items-90b2….arrow                ids, and titles and genres if known
      offsets-….npy  item_codes-….npy  times-….npy  support-….npy
      followers-….npy  predecessors-….npy             dense rows, or
      following_starts-….npy  preceding_starts-….npy … the spans to count rows from
      array-….npy  text-….txt                         the state of recommenders

The manifest is the only commit point. The names of data files contain the first digits of their
checksums. A save writes missing files, replaces the manifest in one step, and then removes files
that the manifest does not list. After an interruption, the folder holds the old model or the new
one, and the next save removes leftover files.

Recommenders with equal arrays or texts share the files. There is one format; folders of an earlier
format are refused with the advice to refit.
"""

from surerec.storage._files import FileRecord, file_name
from surerec.storage._folder import (
    StoredModel,
    adopt_model,
    check_free,
    load_model,
    read_card,
    save_model,
    seal_model,
    writing_errors,
)
from surerec.storage._manifest import RecommenderSpec

__all__ = [
    "FileRecord",
    "RecommenderSpec",
    "StoredModel",
    "adopt_model",
    "check_free",
    "file_name",
    "load_model",
    "read_card",
    "save_model",
    "seal_model",
    "writing_errors",
]
