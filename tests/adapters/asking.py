"""What tests of every library's models ask, in whichever environment they run."""

import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path

import numpy as np

import surerec as sr
from surerec.testing import CHECKS, ModelUnderTest

EPSILON = 0.2
QUICK = sorted(set(CHECKS) - {"served", "audited", "on Spark"})
PAGES = Path(__file__).parents[2] / "docs"


def missed(model, films, tested, *, by_history):
    losses, promised = [], []
    for case, user in enumerate(tested.users):
        known = films.items.ids.gather(tested.known(case)).to_list()
        asked = {"history": known} if by_history else {"user": films.users[int(user)]}
        picks = model.recommend(**asked, confidence=1 - EPSILON)
        future = films.items.ids.gather(tested.future(case)).to_list()
        losses.append(np.mean([item not in picks.items for item in future]))
        promised.append(picks.guarantee.holds)
    return float(np.mean(losses)), promised


def check_covered(model, many, covers):
    """Check that new users, or users of the fit, lose as much as is promised."""
    films, tested = many
    new = covers == "new-users"
    past = films.without_users(tested.users) if new else films.keeping(~tested.future_rows())
    sure = sr.wrap(model, covers=covers).fit(past)
    loss, promised = missed(sure, films, tested, by_history=new)
    held = past.users.ids.gather(sure.calibration_.users)
    calibrates = np.isin(films.users.ids.gather(tested.users), held)
    enough = np.diff(past.offsets)[tested.users] >= sure.min_history
    assert promised == (tested.users >= 0 if new else ~calibrates & enough).tolist()
    assert abs(loss - EPSILON) < 0.04


def check_calibrated_and_saved(sure, model, user, best, folder, scorer=None):
    """Check a calibrated model of a library, which is left alone, and what a folder gives back."""
    assert sure.covers_ == "fit"
    assert sure.wrapped_ is model
    picks = sure.recommend(user, confidence=0.6)
    assert "over users of the fit. Assumes users" in str(picks.guarantee)
    assert picks.items[0] == best
    sure.save(folder)
    back = sr.load(folder, scorer=scorer)
    assert back.recommend_many(confidence=0.6).equals(sure.recommend_many(confidence=0.6))
    assert back.recommend(user, confidence=0.6).guarantee == picks.guarantee
    return back


def check_copy(new, fitted, films, scores):
    """Check that a copy learns nothing from what was fitted before, and leaves it alone."""
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


def check_page(name, n_examples):
    """Run the examples of a page, one after the other; each must print what the page says."""
    # Factors differ in their last digits between processors, and the set by an item.
    size = re.compile(r"(?<=RecommendationSet\()\d+")
    page, names = PAGES / name, {}
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(pairs) == n_examples
    for code, said in pairs:
        printed = StringIO()
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # users of the future only, and others' libraries
            exec(compile(code, str(page), "exec"), names)  # noqa: S102  # our own page
        assert size.sub("", printed.getvalue()) == size.sub("", said)
        sizes = [list(map(int, size.findall(text))) for text in (printed.getvalue(), said)]
        assert np.abs(np.subtract(*sizes)).max(initial=0) <= 2


def imported_with_surerec():
    """Return which libraries a process imports that only wraps a function."""
    code = (
        "import sys, surerec as sr; sr.wrap(lambda h: [[0.0, 1.0]] * len(h), items=[1, 2])\n"
        "libraries = {'implicit', 'rectools', 'lenskit', 'torch', 'pandas'}\n"
        "print(*libraries.intersection(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
