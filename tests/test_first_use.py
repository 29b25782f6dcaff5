"""First use: the warm-up runs, and nothing heavy is imported before it is needed."""

import subprocess
import sys

import pytest

import surerec as sr
from surerec.cli._serve import PARTS, compile_for


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_warm_up_runs(part, monkeypatch):
    monkeypatch.setenv("SUREREC_THREADS", "1")  # as it sets it itself
    compile_for(PARTS[part])


def imported(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = {"numpy", "polars", "numba", "scipy", "pyarrow", "rich", "typer"}
    assert not imported("import surerec") & heavy
    version = "sys.argv = ['surerec', '--version']; from surerec.__main__ import main; main()"
    assert not imported(version) & heavy
    used = imported("import surerec; surerec.PopulationConformal, surerec.read_interactions")
    assert not used & {"scipy.special", "pyarrow", "rich", "surerec.measures.learned"}


def test_all_public_names_are_available():
    for name in sr.__all__:
        assert getattr(sr, name) is not None
    assert dir(sr) == sorted(sr.__all__)
    assert sr.errors.InputError is sr.InputError
    assert sr.recommenders.load is sr.load
    with pytest.raises(AttributeError, match="has no attribute 'recommend'"):
        sr.recommend  # noqa: B018
