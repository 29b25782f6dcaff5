"""What tests of every library's models ask, in whichever environment they run."""

import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
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
    new = covers == "newcomers"
    past = films.without_users(tested.users) if new else films.keeping(~tested.future_rows())
    sure = sr.wrap(model, covers=covers).fit(past)
    loss, promised = missed(sure, films, tested, by_history=new)
    assert all(promised) if new else 0.3 < np.mean(promised) < 0.9  # the others calibrate
    assert abs(loss - EPSILON) < 0.04


def subject_around(make):
    """Return a subject of the contract, with the model that serves if a folder cannot hold it."""
    data = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, seed=1)
    found = ModelUnderTest(make, data)
    if found.fitted.scorer_.adapter.stored is not None:
        return found
    own = ModelUnderTest(make, data, scorer=found.fitted.wrapped_)
    own.__dict__["fitted"] = found.fitted
    return own


def run_page(page):
    """Run the examples of a page, one after the other; give what each printed, and should have."""
    names, found = {}, []
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page.read_text(), re.DOTALL)
    for code, output in pairs:
        printed = StringIO()
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # users of the future only, and others' libraries
            exec(compile(code, str(page), "exec"), names)  # noqa: S102  # our own page
        found.append((printed.getvalue(), output))
    return found


def imported_with_surerec(*libraries):
    """Tell which of them a process has that only wraps a function."""
    code = (
        "import sys, surerec as sr; sr.wrap(lambda h: [[0.0, 1.0]] * len(h), items=[1, 2])\n"
        f"print([m for m in {libraries!r} if m in sys.modules])"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
