"""Models on disk: a folder of Arrow and NumPy files with a manifest; never pickle.

**A model folder holds people's histories**: who took what, and when, with the ids that the data
came with. Guard it as you guard the data, and delete it when you must delete them; counts that
were given without profiles are stored without any.

A folder holds one set of statistics, and any number of named recommenders on them::

    model/
      manifest.json                    what is here: counts, settings, recommenders, checksums
      users-1c7a….arrow                ids with their type
      items-90b2….arrow                ids, titles and genres where known
      offsets-….npy  item_codes-….npy  times-….npy  support-….npy
      followers-….npy  predecessors-….npy             dense rows, or
      following_starts-….npy  preceding_starts-….npy … the spans to count rows from
      array-….npy  text-….txt                         what recommenders learned beside them

The manifest is the only commit point. Data files carry the beginning of their checksum in their
name: a save writes what is not there yet beside what is, replaces the manifest in one step, and
then removes what no manifest names. Whenever a save is interrupted, the folder holds the old
model or the new one, and the next save tidies up.

The state of a recommender (arrays and texts) is files like the others, named by the manifest
alone: equal ones are one file, whichever recommenders use it. There is one format; a folder of an
earlier one is refused with the advice to refit.
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
