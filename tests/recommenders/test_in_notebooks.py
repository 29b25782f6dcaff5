"""What results look like in a notebook: a small table, the promise, a figure, a pandas frame."""

import builtins

import pandas as pd
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit

TITLES = pl.DataFrame({"item_id": list(range(1, 61)), "title": ["<b>x</b>"] + ["y"] * 59})


@pytest.fixture(scope="module")
def films():
    taken = sr.datasets.synthetic(n_users=120, n_items=60, n_rows=2_400, seed=1)
    return sr.read_interactions(taken.to_frame(), titles=TITLES)


@pytest.fixture(scope="module")
def model(films):
    return sr.PopulationConformal("CM12").fit(films)


def test_a_set_is_a_table_with_bars_and_its_promise(model, films):
    picks = model.recommend(films.users[0], confidence=0.8)
    page = picks._repr_html_()
    assert (
        f"{len(picks)} of {picks.n_candidates} items at confidence 0.8, by population-cm12" in page
    )
    assert str(picks.guarantee).split(",")[0] in page
    assert page.count("<tr>") == 1 + min(len(picks), 10)
    assert "probability" in page
    assert "width:" in page
    assert "nan" not in page.lower()
    assert "<b>x</b>" not in page  # titles are text, whatever they hold


def test_an_explanation_is_a_table_and_has_no_p_value_where_there_is_none(model, films):
    picks = model.recommend(films.users[0], confidence=0.8)
    why = model.explain(films.users[0], item=picks.items[0])
    assert "nan" not in repr(why)
    assert repr(why).startswith(f"Explanation({picks.items[0]}, entry_confidence=")
    assert "took it later" in why._repr_html_()
    paper = sr.InductiveConformal("CM12").fit(films).explain(films.users[0], item=picks.items[0])
    assert "p_value=" in repr(paper)


def test_frames_are_given_as_pandas_has_them(model, films):
    picks = model.recommend(films.users[0], confidence=0.8)
    frame = picks.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["item_id"].tolist() == picks.items
    assert list(model.explain(films.users[0], item=picks.items[0]).to_pandas()["share"])
    assert len(model.recommend(films.users[0], k=5).to_pandas()) == 5


def test_figures_show_as_many_bars_as_are_wanted(model, films):
    picks = model.recommend(films.users[0], confidence=0.8)
    axes = picks.plot(4).axes[0]
    assert len(axes.patches) == 4
    assert axes.get_xlabel() == "probability"
    why = model.explain(films.users[0], item=picks.items[0])
    assert len(why.plot(3).axes[0].patches) == 3
    assert audit(films, "CM12", n_users=60).plot().axes


@pytest.mark.parametrize(
    ("library", "ask", "says"),
    [
        ("pandas", lambda picks: picks.to_pandas(), "needs pandas: pip install pandas"),
        ("matplotlib", lambda picks: picks.plot(), "needs matplotlib: pip install"),
    ],
)
def test_without_the_library_a_sentence_says_which(model, films, monkeypatch, library, ask, says):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *rest, **more)

    picks = model.recommend(films.users[0], confidence=0.8)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(sr.InputError, match=says):
        ask(picks)
