"""Checks shared by the tests of all libraries' models."""

import re
import warnings
from contextlib import chdir, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from textwrap import dedent

import numpy as np

import surerec as sr
from surerec.testing import CHECKS, ModelUnderTest
from tests.served import served_cases

EPSILON = 0.2
QUICK = sorted(set(CHECKS) - {"served", "audited", "on Spark"})
MODELS_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "models.md"


def missed(model, tested, asked_by):
    found = list(served_cases(model, tested, asked_by, confidence=1 - EPSILON))
    return np.mean([lost for _, lost in found]), [picks.guarantee.holds for picks, _ in found]


def check_covered(model, many, covers):
    """Check the recall guarantee for new users or for users of the fit."""
    films, tested = many
    new = covers == "new-users"
    past = films.without_users(tested.users) if new else films.keeping(~tested.future_rows())
    sure = sr.wrap(model, covers=covers).fit(past)
    loss, holds = missed(sure, tested, "history" if new else "user")
    calibration = past.users.ids.gather(sure.calibration_.users)
    calibrates = np.isin(films.users.ids.gather(tested.users), calibration)
    enough = np.diff(past.offsets)[tested.users] >= sure.min_history
    assert holds == (tested.users >= 0 if new else ~calibrates & enough).tolist()
    assert abs(loss - EPSILON) < 0.04


def check_calibrated_and_saved(sure, model, user, best, folder, scorer=None):
    """Check a calibrated model of a library, which stays unchanged, and the loaded copy."""
    assert sure.covers_ == "fit"
    assert sure.wrapped_ is model
    picks = sure.recommend(user, confidence=0.6)
    assert "on average over users of the fit:" in str(picks.guarantee)
    assert picks.items[0] == best
    sure.save(folder)
    back = sr.load(folder, scorer=scorer)
    assert back.recommend_many(confidence=0.6).equals(sure.recommend_many(confidence=0.6))
    assert back.recommend(user, confidence=0.6).guarantee == picks.guarantee
    return back


def check_copy(new, fitted, films, scores):
    """Check that a copy is fitted from scratch, and that the model stays unchanged."""
    before = scores()
    from_fitted = sr.wrap(fitted).fit(films)
    assert from_fitted.wrapped_ is not fitted
    assert np.array_equal(scores(), before, equal_nan=True)
    theirs = from_fitted.recommend_many(confidence=0.7)
    assert sr.wrap(new).fit(films).recommend_many(confidence=0.7).equals(theirs)


@cache
def subject_around(make, name, covers=None):
    """Return a subject of the contract, with the model that serves if a folder cannot hold it."""
    data = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)
    wrap = partial(sr.wrap, make(name), covers=covers)
    found = ModelUnderTest(wrap, data)
    if found.fitted.scorer_.adapter.stored is None:
        return ModelUnderTest(wrap, data, scorer=found.fitted.wrapped_)
    return found


def check_page(folder, tab, n_examples, *, rest=False):
    """Run the examples of a library's tab, and perhaps the rest of the page; compare the output."""
    # Factors differ in their last digits between processors, and the set by an item.
    size = re.compile(r"(?<=RecommendationSet\()\d+")
    page, names = MODELS_PAGE, {}
    text = page.read_text()
    tabs = re.compile(r'^=== "(.*)"\n((?:    .*\n|\n)*)', re.MULTILINE)
    text = dedent(dict(tabs.findall(text))[tab]) + (tabs.sub("", text) if rest else "")
    pairs = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    assert len(pairs) == n_examples
    for code, expected in pairs:
        printed = StringIO()
        with chdir(folder), redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # users of the future only, and others' libraries
            exec(compile(code, str(page), "exec"), names)  # noqa: S102  # our own page
        assert size.sub("", printed.getvalue()) == size.sub("", expected)
        sizes = [list(map(int, size.findall(text))) for text in (printed.getvalue(), expected)]
        assert np.abs(np.subtract(*sizes)).max(initial=0) <= 2
