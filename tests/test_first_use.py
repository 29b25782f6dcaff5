"""The first use: nobody looks at a blank screen, and nothing is imported that is not needed."""

import subprocess
import sys
from io import StringIO

import numba
import pytest
from rich.console import Console

import surerec as sr
from surerec import _compiling
from surerec.cli._serve import _PARTS


@pytest.fixture
def compile_something():
    def compile_it():
        @numba.njit
        def twice(x):
            return x + x

        return twice(2)

    return compile_it


def test_a_terminal_is_told_that_it_compiles_and_how_far(monkeypatch, compile_something):
    monkeypatch.setattr(_compiling, "_AT_ONCE", -1.0)
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with _compiling.compile_progress(console) as compiled:
        compile_something()
    assert compiled.n_compiled == 1
    assert "Compiling, once on this machine: 1 functions" in screen.getvalue()


def test_a_file_is_told_nothing_and_it_is_counted_all_the_same(monkeypatch, compile_something):
    monkeypatch.setattr(_compiling, "_AT_ONCE", -1.0)
    screen = StringIO()
    with _compiling.compile_progress(Console(file=screen)) as compiled:
        compile_something()
    assert (compiled.n_compiled, screen.getvalue()) == (1, "")
    compile_something()
    assert compiled.n_compiled == 1  # nobody is listened to any more


def test_inside_another_one_it_is_that_one_and_ends_with_it(monkeypatch, compile_something):
    monkeypatch.setattr(_compiling, "_AT_ONCE", -1.0)
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with _compiling.compile_progress(console) as outer:
        with _compiling.compile_progress() as inner:  # as counting does inside a command
            compile_something()
        assert inner is outer
        compile_something()
        assert outer.n_compiled == 2
    assert "2 functions" in screen.getvalue()
    with _compiling.compile_progress(Console(file=StringIO())) as another:
        assert another is not outer


def test_the_bar_goes_while_nothing_is_compiled(monkeypatch, compile_something):
    monkeypatch.setattr(_compiling, "_AT_ONCE", -1.0)
    console = Console(file=StringIO(), force_terminal=True, width=120)
    with _compiling.compile_progress(console) as compiled:
        compile_something()
        assert compiled._bar is None
        compile_something()
    assert compiled.n_compiled == 2


def test_what_compiles_at_once_is_not_worth_a_word(monkeypatch, compile_something):
    monkeypatch.setattr(_compiling, "_AT_ONCE", 1000.0)
    screen = StringIO()
    with _compiling.compile_progress(Console(file=screen, force_terminal=True)):
        compile_something()
    assert screen.getvalue() == ""


@pytest.mark.parametrize("part", _PARTS)
def test_every_part_of_the_warm_up_runs(cli, part):
    assert cli("warm-up", "--only", part).code == 0


def test_an_unknown_part_is_refused(cli):
    assert "There is no part 'tea'" in cli("warm-up", "--only", "tea").err


def imported(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = {"numpy", "polars", "numba", "scipy", "pyarrow", "rich", "typer"}
    assert not imported("import surerec") & heavy
    told = "sys.argv = ['surerec', '--version']; from surerec.__main__ import main; main()"
    assert not imported(told) & heavy
    asked = imported("import surerec; surerec.PopulationConformal, surerec.read_interactions")
    assert not asked & {"scipy.special", "pyarrow", "rich", "surerec.measures.learned"}


def test_all_public_names_are_there_all_the_same():
    for name in sr.__all__:
        assert getattr(sr, name) is not None
    assert {*sr.__all__, "errors", "measures"} <= set(dir(sr))
    assert sr.recommenders.load is sr.load
    with pytest.raises(AttributeError, match="has no attribute 'recommend'"):
        sr.recommend  # noqa: B018
