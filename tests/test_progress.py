"""Progress: stages and their times, on a terminal and in logs, and silence elsewhere."""

import logging
from io import StringIO

import numba
import pytest
from rich.console import Console

import surerec as sr
from surerec import _progress
from surerec._progress import COMPILING, Bar, progress, stage, time_stages
from surerec.measures.learned import LearnedModel
from surerec.recommenders import to_spec


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=200, n_items=40, n_rows=3000, random_state=1)


@pytest.fixture
def screen(monkeypatch):
    """A terminal, whose bars do not wait for half a second."""
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=120)
    monkeypatch.setattr(_progress, "terminal", lambda: console)
    monkeypatch.setattr(_progress, "AT_ONCE", -1.0)
    _progress._display.cache_clear()
    yield shown
    _progress._display.cache_clear()


def test_a_terminal_shows_the_stage_the_amount_and_the_time(screen):
    with progress("Scoring calibration users", total=2000, unit="users") as advance:
        advance(500)
        _progress._display().refresh()
    assert "Scoring calibration users" in screen.getvalue()
    assert "500 of 2,000 users" in screen.getvalue()
    assert "0:00:00" in screen.getvalue()


def test_the_learned_measure_shows_its_progress(screen, caplog):
    films = sr.datasets.synthetic(n_users=400, n_items=40, n_rows=6000, random_state=1)
    with caplog.at_level(logging.DEBUG, logger="surerec"):
        sr.PopulationConformal("learned").fit(films)
    for expected in ("Learning", "Training: examples of pair 6 of 6", "calibration users"):
        assert expected in screen.getvalue()
    for expected in (  # on the terminal if they take a tenth of a second
        "Fitting a ridge regression from past to future: ",
        "Training: examples of pair 1 of 6",
        "Training: comparing features (fold 1 of 4)",
        "Training: comparing 'matrix factorisation' (fold 4 of 4)",
        "Training: small and larger trees (fold 4 of 4)",
    ):
        assert expected in caplog.text


def test_the_bar_of_a_training_is_full_at_its_end(films, monkeypatch):
    seen, close = {}, Bar.close

    def closed(bar):
        seen[bar._description] = bar._done, bar._total
        close(bar)

    monkeypatch.setattr(Bar, "close", closed)
    for components in (None, ["sequence"]):
        LearnedModel.train(sr.count_precedence(films), components=components)
        done, total = next(both for name, both in seen.items() if "trees (fold" in name)
        assert done == pytest.approx(total)
        seen.clear()


def test_a_choice_shows_the_measure_that_is_tried(films, caplog):
    with caplog.at_level(logging.DEBUG, logger="surerec"):
        sr.PopulationConformal("auto").fit(films)
    for place, name in enumerate(("CM12", "als", "learned"), start=1):
        assert f"Trying {name} ({place} of 3)" in caplog.messages
    assert caplog.text.count("Scoring the users who choose: ") == 3


def test_a_bar_advances_through_results_by_what_they_are_worth():
    bar = Bar("Working")
    assert list(bar.through(iter("abc"), 3, worth=6.0)) == ["a", "b", "c"]
    assert bar._done == 6.0
    assert list(bar.through(iter(()), 0)) == []
    assert bar._done == 7.0


def test_short_work_shows_no_bar(screen, monkeypatch):
    monkeypatch.setattr(_progress, "AT_ONCE", 1000.0)
    with progress("Quick", total=1) as advance:
        advance(1)
    assert "Quick" not in screen.getvalue()


def test_bars_can_be_switched_off_by_the_logger(screen):
    logger = logging.getLogger("surerec")
    logger.setLevel(logging.ERROR)
    try:
        with progress("Counting", total=1):
            pass
    finally:
        logger.setLevel(logging.NOTSET)
    assert screen.getvalue() == ""


def test_nothing_is_printed_into_a_pipe(films, capsys):
    sr.PopulationConformal().fit(films)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose_prints_stages_and_totals_on_stderr(films, capsys, monkeypatch, verbose):
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest adds some
    sr.PopulationConformal(verbose=verbose).fit(films)
    out, err = capsys.readouterr()
    assert out == ""
    *lines, total = err.splitlines()
    stages = [line.partition(":")[0] for line in lines if not line.endswith("…")]
    expected = ["Counting", "Learning", "Calibration"]
    assert stages == expected if verbose == 1 else "Scoring calibration users" in stages
    assert total.startswith("Fitted in ")
    logger = logging.getLogger("surerec")
    assert logger.level == logging.NOTSET
    assert [type(each) for each in logger.handlers] == [logging.NullHandler]


def test_a_program_with_its_own_logging_gets_records_and_no_second_copy(films, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="surerec"):
        sr.PopulationConformal(verbose=1).fit(films)
    assert caplog.messages[-1].startswith("Fitted in ")
    assert all(record.name == "surerec" for record in caplog.records)
    assert capsys.readouterr().err == ""


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests control."""
    now = [0.0]
    monkeypatch.setattr(_progress, "perf_counter", lambda: now[0])
    return now


def test_totals_name_every_stage_and_the_rest(clock):
    with time_stages() as spent:
        with stage("counting"):
            COMPILING.seconds += 8.0
            clock[0] += 8.2
        with stage("learning"), stage("counting"):  # a stage inside another is its time
            clock[0] += 26.1
        clock[0] += 7.1
    assert str(spent) == "41 s: counting 0.2 s, compiling 8.0 s, learning 26 s, other 7.1 s"


def test_verbose_is_not_saved(films, tmp_path):
    loud = sr.PopulationConformal(verbose=1)
    fitted = loud.fit(films)
    quiet = sr.PopulationConformal().fit(films)
    assert to_spec(fitted).params == to_spec(quiet).params
    fitted.save(tmp_path / "model", "mine")
    loaded = sr.load(tmp_path / "model")
    assert loaded.verbose == 0
    assert loaded.set_params(verbose=True).name_ == "mine"
    picks, same = (each.recommend(7, confidence=0.8).to_frame() for each in (loaded, quiet))
    assert picks.equals(same)


@pytest.mark.parametrize(("module", "is_shown"), [("surerec.kernels", True), ("shop", False)])
def test_a_terminal_shows_the_compilation_of_kernels(screen, module, is_shown):
    def twice(x):
        return x + x

    twice.__module__ = module
    before = COMPILING.n_compiled
    numba.njit(twice)(2)
    assert COMPILING.n_compiled - before == is_shown
    assert ("Compiling (first use only)" in screen.getvalue()) == is_shown
    assert not _progress._display().tasks
