"""What is promised is delivered, to those whom a promise covers, and to them only."""

import warnings

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import profile_cases

pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")

from implicit.als import AlternatingLeastSquares

from tests.adapters.asking import EPSILON, check_covered, missed


def als():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AlternatingLeastSquares(40, random_state=1)  # enough to learn people by heart


def test_people_of_the_fit(many):
    films, tested = many
    known = films.keeping(~tested.future_rows())
    model = sr.wrap(als()).fit(known)
    loss, promised = missed(model, films, tested, by_history=False)
    held = set(known.users.ids.gather(model.calibration_.users).to_list())
    calibrates = [films.users[int(user)] in held for user in tested.users]
    lengths = np.diff(known.offsets)[tested.users]
    assert promised == [not c and n >= 5 for c, n in zip(calibrates, lengths, strict=True)]
    assert loss == pytest.approx(EPSILON, abs=0.04)


def test_newcomers(many):
    check_covered(als(), many, "newcomers")


def test_whoever_calibrates_with_what_was_fitted_promises_too_much(many):
    """Why none of it is promised: a model that knew the futures ranks them far too well."""
    films, tested = many
    known = films.keeping(~tested.future_rows())
    later = profile_cases(known, 0.4)
    cheated = sr.wrap(
        _fitted_on(known), items=known.items.ids, users=known.users.ids, min_known=3
    ).calibrate(known.keeping(~later.future_rows()), known.keeping(later.future_rows()))
    loss, _ = missed(cheated, films, tested, by_history=False)
    assert loss > EPSILON + 0.1


def _fitted_on(known):
    from surerec.adapters import adapt  # noqa: PLC0415

    return adapt(als()).fitted_on(known).model
