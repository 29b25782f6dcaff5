"""The catalogue says what the issue and the paper ask of it, and nothing that cannot be."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

import surerec.datasets
from surerec.datasets import CATALOGUE, Counts
from surerec.datasets._catalogue import Archive, Files, Wheel, find_dataset
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
OTHERS = {
    "complete-journey",
    "ml-100k",
    "ml-1m",
    "ml-latest-small",
    "ml-latest-small-2016",
    "movietweetings",
    "netflix-prize",
}
SOURCES = [(name, source) for name, entry in CATALOGUE.items() for source in entry.sources]


def test_holds_the_papers_seven_and_seven_more():
    assert set(CATALOGUE) == set(PAPER) | OTHERS
    assert {name: entry.paper for name, entry in CATALOGUE.items() if entry.paper} == PAPER


def test_every_entry_says_where_it_is_from_and_what_is_allowed():
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert entry.title
        assert entry.licence
        assert entry.homepage.startswith("https://")
        assert entry.sources or entry.note


@pytest.mark.parametrize(
    ("name", "source"), SOURCES, ids=lambda value: getattr(value, "description", value)
)
def test_every_source_brings_the_files_that_its_layout_reads(name, source):
    places = source.urls if isinstance(source, Files) else source.members
    brought = {PurePosixPath(place).name for place in places}
    if getattr(source, "rewritten", False):
        assert brought == {"ml-1m.inter", "ml-1m.item"}
    else:
        assert brought == set(source.layout.ratings) | set(source.layout.titles)
    assert source.layout in CATALOGUE[name].layouts
    assert source.expected is not None


@pytest.mark.parametrize(("name", "source"), SOURCES)
def test_a_name_means_one_edition_from_every_source(name, source):
    assert source.expected == CATALOGUE[name].expected


@pytest.mark.parametrize("source", [source for _, source in SOURCES])
def test_checksums_are_well_formed(source):
    if isinstance(source, Wheel):
        assert re.fullmatch("[0-9a-f]{64}", source.sha256)
        assert re.fullmatch(r"[a-z-]+==[0-9.]+", source.requirement)
    elif isinstance(source, Archive) and source.checksum:
        assert re.fullmatch("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", source.checksum)


def test_descriptions_tell_the_sources_of_a_set_apart():
    for entry in CATALOGUE.values():
        words = [source.description for source in entry.sources]
        assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("typed", "meant"), [("ml100k", "ml-100k"), ("ML-1M", "ml-1m"), ("netflix", "netflix-prize")]
)
def test_an_unknown_name_is_answered_with_near_ones(typed, meant):
    with pytest.raises(InputError, match=f"{typed}.*did you mean.*{meant}"):
        find_dataset(typed)


def test_a_name_like_no_other_is_answered_with_all():
    with pytest.raises(InputError, match="there are ml-100k, ml-1m"):
        find_dataset("zzz")


def test_public_names_are_sorted():
    assert surerec.datasets.__all__ == sorted(surerec.datasets.__all__)
