"""A scorer that falsely declares leaves_users_out is rejected by fit and found by audit."""

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import profile_cases
from surerec.testing import check_leaves_users_out
from tests.audit.audited_data import with_duplicates
from tests.contracts.support import Careful

FALSE = "declares leaves_users_out = True, which is false"


class Memory:
    """Scores by what similar users consumed, so that it knows the future of fitted users."""

    leaves_users_out = False

    def __init__(self, statistics):
        profiles = statistics.interactions
        self.consumed = np.zeros((profiles.n_users, profiles.n_items))
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self.consumed[owners, profiles.item_codes] = 1

    def score(self, history, *, without_user=None):
        consumed = self.consumed
        if self.leaves_users_out and without_user is not None:
            consumed = np.delete(consumed, without_user, axis=0)
        shared = consumed[:, history].sum(axis=1) / np.maximum(consumed.sum(axis=1), 1) ** 0.5
        return (shared / max(shared.max(), 1e-9)) ** 8 @ consumed


class LeavesOut(Memory):
    leaves_users_out = True


class Undeclared(Memory):
    leaves_users_out = None


class FalselyDeclared(Memory):
    """Declares that it leaves users out, and does not."""

    leaves_users_out = True

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return super().score(history)


class Popular(Careful):
    """Support including the user's own items, which hardly changes a ranking."""

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return self.statistics.support.astype(float)


class Nondeterministic(Careful):
    """No two fits agree."""

    def __init__(self, statistics):
        super().__init__(statistics)
        self.noise = np.random.default_rng().random(statistics.n_items)

    def score(self, history, *, without_user=None):
        return super().score(history, without_user=without_user) + self.noise


class NeedsManyUsers(Careful):
    """Rejects small data."""

    def __init__(self, statistics):
        if np.count_nonzero(np.diff(statistics.interactions.offsets)) < 500:
            raise RuntimeError("too few users")
        super().__init__(statistics)


class CountsFits:
    """A measure whose fit changes it."""

    def __init__(self):
        self.n_rows = []

    def fit(self, statistics):
        self.n_rows.append(statistics.interactions.n_rows)
        return Careful(statistics)


@pytest.fixture(scope="module")
def dense():
    """Few items with many users each."""
    return sr.datasets.synthetic(n_users=800, n_items=80, n_rows=16_000, random_state=5)


@pytest.fixture(scope="module")
def sparse():
    """Many items with few users each."""
    return sr.datasets.synthetic(n_users=500, n_items=1_500, n_rows=20_000, random_state=5)


@pytest.fixture(params=["dense", "sparse"])
def either(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("kind", [sr.PopulationConformal, sr.InductiveConformal])
@pytest.mark.parametrize("fitted", [False, True], ids=["class", "fitted"])
def test_fit_rejects_a_false_declaration(either, kind, fitted):
    counts = sr.count_precedence(either)
    given = FalselyDeclared(counts) if fitted else FalselyDeclared
    with pytest.raises(
        sr.InputError, match=f"FalselyDeclared {FALSE}.*declare leaves_users_out = False"
    ):
        kind(given).fit(counts)


def test_fit_rejects_a_small_leak(dense, sparse):
    """Of a measure that refits; of a fitted scorer if items are rare."""
    with pytest.raises(sr.InputError, match=f"Popular {FALSE}: refitted with other items for user"):
        sr.PopulationConformal(Popular).fit(dense)
    given = Popular(sr.count_precedence(sparse))
    with pytest.raises(sr.InputError, match=f"Popular {FALSE}: with the user left out, items"):
        sr.PopulationConformal(given).fit(sparse)


@pytest.mark.parametrize("honest", [LeavesOut, Careful, Nondeterministic, NeedsManyUsers])
def test_true_declarations_are_accepted(dense, honest):
    for given in (honest, honest(sr.count_precedence(dense))):
        model = sr.PopulationConformal(given).fit(dense)
        assert str(model.recommend(7, confidence=0.8).guarantee).startswith(
            "Recall of at least 80%"
        )


@pytest.mark.parametrize("measure", ["CM12", "als"])
def test_wrapped_measures_are_accepted(sparse, measure):
    counts = sr.count_precedence(sparse)
    inner = sr.PopulationConformal(measure).fit(counts).scorer_

    class Around:
        leaves_users_out = True

        def score(self, history, *, without_user=None):
            return inner.score(history, without_user=without_user)

    assert sr.PopulationConformal(Around()).fit(counts).calibration_


def test_duplicated_users_do_not_reject_a_scorer(sparse):
    twins = with_duplicates(sparse, 0.8)
    given = LeavesOut(sr.count_precedence(twins))
    assert sr.PopulationConformal(given, n_calibration=50).fit(twins).calibration_


def test_the_check_does_not_change_the_measure(dense):
    own = CountsFits()
    sr.PopulationConformal(own).fit(dense)
    assert own.n_rows == [dense.n_rows]


def test_an_audit_reports_a_false_declaration(dense):
    found = audit(dense, FalselyDeclared, n_users=400, window=120)
    assert found.overall.startswith(f"FalselyDeclared {FALSE}. Calibrated as declared: ")
    assert "observed (90% nominal)" in found.overall
    assert f"FalselyDeclared {FALSE}" in found.findings[0]
    verdicts = {each.kind: each.verdict for each in found.verdicts}
    assert verdicts["recall-rank-as-used"] == verdicts["recall-score-as-used"] == "does not hold"
    assert not {"holds", "conservative"} & set(verdicts.values())
    assert "may fail for users that FalselyDeclared was fitted on" in found.verdicts[0].sentence


@pytest.mark.parametrize(
    ("kind", "verdict", "overall"),
    [
        (FalselyDeclared, "does not hold", "rely on neither here"),
        (Memory, "cannot tell", "comes fitted"),
        (Undeclared, "cannot tell", "comes fitted"),
    ],
)
def test_an_audit_of_a_fitted_scorer(dense, kind, verdict, overall):
    found = audit(dense, kind(sr.count_precedence(dense)), n_users=200, window=120)
    assert {each.verdict for each in found.verdicts} == {verdict}
    assert set(found.coverage["verdict"]) == {verdict}
    assert overall in found.overall
    assert "holds" not in found.overall


def test_calibration_users_are_held_out_of_a_scorer_that_cannot_leave_them_out(dense):
    model = sr.PopulationConformal(Memory).fit(dense)
    held_out = model.calibration_.users
    assert 0 < len(held_out) <= len(profile_cases(dense, 0.4)) // 2
    assert not model.scorer_.own.consumed[held_out].any()


UNDECLARED = "No guarantee: the scorer Undeclared does not declare whether"
FITTED = "No guarantee: the scorer Memory is already fitted"
SEEN = "No guarantee: the scorer was fitted on this user"


@pytest.mark.parametrize(
    ("kind", "scorer", "fitted", "to_known", "to_new"),
    [
        (sr.InductiveConformal, Undeclared, False, UNDECLARED, UNDECLARED),
        (sr.PopulationConformal, Undeclared, False, UNDECLARED, UNDECLARED),
        (sr.InductiveConformal, Undeclared, True, UNDECLARED, UNDECLARED),
        (sr.PopulationConformal, Undeclared, True, UNDECLARED, UNDECLARED),
        (sr.PopulationConformal, Memory, True, FITTED, FITTED),
        (sr.InductiveConformal, Memory, False, SEEN, "An item new to the user that they consume"),
    ],
)
def test_who_is_covered_by_a_scorer_that_leaves_no_user_out(
    dense, kind, scorer, fitted, to_known, to_new
):
    model = kind(scorer(sr.count_precedence(dense)) if fitted else scorer).fit(dense)
    history = dense.items.ids[:12].to_list()
    known = model.recommend(dense.users[3], confidence=0.7).guarantee
    assert str(known).startswith(to_known)
    assert str(model.recommend(history=history, confidence=0.7).guarantee).startswith(to_new)
    if to_new == FITTED:
        about = model.recommend(history=history, k=10).about_hit_probability
        assert about.startswith("No probability: the scorer Memory is already fitted")


def test_a_loaded_model_is_fitted_without_calibration_users(dense, tmp_path):
    model = sr.PopulationConformal(Memory).fit(dense)
    model.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=Memory)
    np.testing.assert_array_equal(back.scorer_.own.consumed, model.scorer_.own.consumed)
    fitted = sr.load(tmp_path / "model", scorer=Memory(sr.count_precedence(dense)))
    history = dense.items.ids[:8].to_list()
    assert "is already fitted" in str(fitted.recommend(history=history, confidence=0.8).guarantee)


def test_recalibration_holds_out_other_users(dense):
    middle = int(np.quantile(dense.times, 0.7))
    model = sr.PopulationConformal(Memory).fit(dense.until(middle)).recalibrate(dense)
    assert model.scorer_.own.consumed.sum() == dense.n_rows  # fitted on all, once calibrated
    calibrates = dense.users[int(model.calibration_.users[0])]
    assert "cannot leave them out" in str(model.recommend(calibrates, confidence=0.8).guarantee)
    renewed = sr.PopulationConformal(Memory).fit(dense.until(middle))
    renewed.recalibrate(dense, refit=False)
    assert not renewed.scorer_.own.consumed[renewed.calibration_.users].any()


def test_an_audit_measures_both_calibrations(dense):
    found = audit(dense, Memory, n_users=400, window=120)
    verdicts = {each.kind: each for each in found.verdicts}
    assert verdicts["recall-rank"].kept
    assert verdicts["recall-rank-as-used"].verdict == "does not hold"
    assert "calibrated on users of its fit" in verdicts["recall-rank-as-used"].name
    assert any("fitted on half of the users" in why for why in found.skipped)
    assert not any(kind.endswith("as-used") for kind in audit(dense, "CM12").coverage["kind"])


@pytest.mark.parametrize(
    ("measure", "n_users"),
    [("CM12", 20), ("CM3", 20), ("NCM16", 20), (LeavesOut, 20), ("learned", 3), ("als", 20)],
)
def test_check_leaves_users_out_accepts(measure, n_users):
    small = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2_400, random_state=2)
    check_leaves_users_out(measure, small, n_users=n_users)


def test_check_leaves_users_out_rejects(dense):
    with pytest.raises(AssertionError, match="FalselyDeclared does not leave users out"):
        check_leaves_users_out(FalselyDeclared, dense)
    with pytest.raises(AssertionError, match="Undeclared does not declare leaves_users_out = True"):
        check_leaves_users_out(Undeclared, dense)
    with pytest.raises(AssertionError, match="Memory cannot be refitted"):
        check_leaves_users_out(Memory(sr.count_precedence(dense)), dense)
