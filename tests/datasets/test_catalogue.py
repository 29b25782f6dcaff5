"""The entries of the catalogue are complete and consistent."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from surerec.datasets import CATALOGUE, Counts, find_dataset
from surerec.errors import InputError

# Table 1 of the paper.
PAPER = {
    "personality-2018": Counts(1_820, 35_196, 1_028_752),
    "flixster": Counts(20_618, 28_331, 1_048_575),
    "ml-10m": Counts(71_567, 10_681, 10_000_054),
    "ml-20m": Counts(138_494, 26_745, 20_000_262),
    "ml-25m": Counts(162_000, 62_000, 25_000_096),
    "ml-latest-v1": Counts(229_061, 26_780, 21_063_128),
    "ml-latest-v2": Counts(280_000, 58_000, 27_753_445),
}
OTHERS = "complete-journey ml-100k ml-1m ml-latest-small ml-latest-small-2016 movietweetings"


def test_names_and_the_counts_of_the_paper():
    assert set(CATALOGUE) == {*PAPER, *OTHERS.split(), "netflix-prize"}
    assert {name: entry.paper for name, entry in CATALOGUE.items() if entry.paper} == PAPER


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_every_entry_is_complete(entry):
    assert entry.title
    assert entry.licence
    assert entry.homepage.startswith("https://")
    assert entry.sources or entry.note
    words = [source.description for source in entry.sources]
    assert len(words) == len(set(words))
    for source in entry.sources:
        names = {PurePosixPath(place).name for place in source.members or source.urls}
        files = {*source.layout.ratings, *source.layout.titles}
        assert names == ({"ml-1m.inter", "ml-1m.item"} if source.rewritten else files)
        assert source.layout in entry.layouts
        assert entry.expected is not None
        assert bool(source.wheel) != bool(source.urls)
        if source.wheel:
            assert re.fullmatch("sha256:[0-9a-f]{64}", source.checksum)
            assert re.fullmatch(r"[a-z-]+==[0-9.]+", source.wheel)
        elif source.checksum:
            assert re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", source.checksum)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ML-1M", "Did you mean.*ml-1m"),
        ("netflix", "Did you mean.*netflix-prize"),
        ("zzz", "Use ml-100k, ml-1m"),
    ],
)
def test_an_unknown_name_raises_with_suggestions(name, hint):
    with pytest.raises(InputError, match=f"{name}.*{hint}"):
        find_dataset(name)
