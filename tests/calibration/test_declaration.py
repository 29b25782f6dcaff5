"""A scorer that declares falsely that it leaves users out is refused by fit, and found by audit."""

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from tests.audit.audited_data import with_duplicates
from tests.calibration.test_left_out import Forgets, Liar, Memory

FALSE = "declares leaves_users_out = True, which is false"


class Popular:
    """Support with a user's own part in it, which hardly changes a ranking of popular items."""

    leaves_users_out = True

    def __init__(self, statistics):
        self.statistics = statistics

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return self.statistics.support.astype(float)


class Honest(Popular):
    def score(self, history, *, without_user=None):
        scores = super().score(history)
        scores[self.statistics.taken_by(without_user)[0]] -= 1
        return scores


class Unsteady(Honest):
    """Learns at random: no two fits agree."""

    def __init__(self, statistics):
        super().__init__(statistics)
        self.noise = np.random.default_rng().random(statistics.n_items)

    def score(self, history, *, without_user=None):
        return super().score(history, without_user=without_user) + self.noise


class Demanding(Honest):
    """Refuses small data."""

    def __init__(self, statistics):
        if np.count_nonzero(np.diff(statistics.interactions.offsets)) < 500:
            raise RuntimeError("too few users")
        super().__init__(statistics)


class Restless:
    """An object whose fit changes it."""

    def __init__(self):
        self.n_rows = []

    def fit(self, statistics):
        self.n_rows.append(statistics.interactions.n_rows)
        return Honest(statistics)


@pytest.fixture(scope="module")
def dense():
    """Few items, each of many users."""
    return sr.datasets.synthetic(n_users=800, n_items=80, n_rows=16_000, seed=5)


@pytest.fixture(scope="module")
def sparse():
    """Many items of few users."""
    return sr.datasets.synthetic(n_users=500, n_items=1_500, n_rows=20_000, seed=5)


@pytest.fixture(params=["dense", "sparse"])
def films(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("kind", [sr.PopulationConformal, sr.InductiveConformal])
@pytest.mark.parametrize("fitted", [False, True], ids=["class", "fitted"])
def test_fit_refuses_a_memoriser_that_declares_it_leaves_users_out(films, kind, fitted):
    counts = sr.count_precedence(films)
    given = Liar(counts) if fitted else Liar
    with pytest.raises(sr.InputError, match=f"Liar {FALSE}.*declare leaves_users_out = False"):
        kind(given).fit(counts)


def test_fit_refuses_a_small_leak_by_refitting(dense):
    with pytest.raises(sr.InputError, match=f"Popular {FALSE}: refitted with other items for user"):
        sr.PopulationConformal(Popular).fit(dense)


def test_a_small_leak_of_what_comes_fitted_is_found_where_items_are_rare(sparse):
    given = Popular(sr.count_precedence(sparse))
    with pytest.raises(sr.InputError, match=f"Popular {FALSE}: with the user left out, items"):
        sr.PopulationConformal(given).fit(sparse)


@pytest.mark.parametrize("honest", [Forgets, Honest, Unsteady, Demanding])
def test_what_leaves_users_out_is_accepted(dense, honest):
    for given in (honest, honest(sr.count_precedence(dense))):
        model = sr.PopulationConformal(given).fit(dense)
        assert str(model.recommend(7, confidence=0.8).guarantee).startswith("Of the last 40%")


@pytest.mark.parametrize("measure", ["CM12", "als"])
def test_measures_are_accepted_behind_a_class_of_ones_own(sparse, measure):
    counts = sr.count_precedence(sparse)
    inner = sr.PopulationConformal(measure).fit(counts).scorer_

    class Around:
        leaves_users_out = True

        def score(self, history, *, without_user=None):
            return inner.score(history, without_user=without_user)

    assert sr.PopulationConformal(Around()).fit(counts).calibration_


def test_duplicated_users_are_not_held_against_the_scorer(sparse):
    twins = with_duplicates(sparse, 0.8)
    given = Forgets(sr.count_precedence(twins))
    assert sr.PopulationConformal(given, n_calibration=50).fit(twins).calibration_


def test_the_check_leaves_what_is_fitted_alone(dense):
    own = Restless()
    sr.PopulationConformal(own).fit(dense)
    assert own.n_rows == [dense.n_rows]


def test_what_declares_that_it_does_not_is_not_checked(dense):
    assert sr.PopulationConformal(Memory).fit(dense).calibration_


def test_an_audit_says_that_a_declaration_is_false(dense):
    found = audit(dense, Liar, n_users=400, window=120)
    assert found.overall.startswith(f"Liar {FALSE}. Calibrated as declared, it delivers")
    assert f"Liar {FALSE}" in found.findings[0]
    said = {each.kind: each.verdict for each in found.verdicts}
    assert said["miss-rank-as-used"] == said["miss-score-as-used"] == "does not hold"
    assert not {"holds", "conservative"} & set(said.values())
    assert "need not for users whom Liar learned from" in found.verdicts[0].sentence


def test_an_audit_of_a_fitted_memoriser_says_that_nothing_holds(dense):
    found = audit(dense, Liar(sr.count_precedence(dense)), n_users=200, window=120)
    assert {each.verdict for each in found.verdicts} == {"does not hold"}
    assert set(found.coverage["verdict"]) == {"does not hold"}
    assert f"does not hold, as Liar {FALSE}" in found.verdicts[0].sentence
    assert "rely on neither here" in found.overall
