"""Nobody is promised anything by what may have learned their future, or the calibration users'."""

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import profile_cases
from surerec.measures import Scorer
from surerec.testing import check_leaves_users_out

EPSILON = 0.2


class Memory:
    """Scores by what the most similar users took: of somebody it has seen, it knows the future."""

    leaves_users_out = False

    def __init__(self, statistics):
        profiles = statistics.interactions
        self.taken = np.zeros((profiles.n_users, profiles.n_items))
        owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
        self.taken[owners, profiles.items_taken] = 1

    def score(self, history, *, without_user=None):
        taken = self.taken
        if self.leaves_users_out and without_user is not None:
            taken = np.delete(taken, without_user, axis=0)
        shared = taken[:, history].sum(axis=1) / np.maximum(taken.sum(axis=1), 1) ** 0.5
        return (shared / max(shared.max(), 1e-9)) ** 8 @ taken


class Forgets(Memory):
    leaves_users_out = True


class Silent(Memory):
    leaves_users_out = None


class Liar(Memory):
    """Says that it leaves users out, and does not."""

    leaves_users_out = True

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return super().score(history)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=800, n_items=80, n_rows=16_000, seed=5)


@pytest.fixture(scope="module")
def halves(films):
    """One half fits and calibrates; the other is new."""
    new = np.random.default_rng(0).permutation(films.n_users)[: films.n_users // 2]
    return films.without_users(new), new


def misses(model, films, users):
    """The mean share of their future that people's sets miss, and what they are told."""
    cases = profile_cases(films, 0.4)
    cases = cases[np.isin(cases.users, users)]
    lost, said = [], set()
    for case in range(len(cases)):
        known, future = (
            films.items.ids.gather(codes).to_list()
            for codes in (cases.known(case), cases.future(case))
        )
        picks = model.recommend(history=known, significance=EPSILON)
        lost.append(1 - len(set(picks.items) & set(future)) / len(future))
        said.add(str(picks.guarantee))
    assert len(lost) > 150
    return np.mean(lost), said


def test_calibrated_on_people_it_knows_it_would_miss_twice_as_much(films, halves):
    """What the promise was before: the reason for all that follows."""
    seen, new = halves
    naive = type("Naive", (Liar, Scorer), {"checked": True})  # else its declaration is checked
    lost, _ = misses(sr.PopulationConformal(naive).fit(seen), films, new)
    assert lost > EPSILON + 0.15


def test_calibration_users_are_held_out_of_what_cannot_leave_them_out(films, halves):
    seen, new = halves
    model = sr.PopulationConformal(Memory).fit(seen)
    cases = profile_cases(seen, 0.4)
    assert 0 < len(model.calibration_) <= len(cases) // 2
    held_out = model.calibration_.users
    assert not model.scorer_.own.taken[held_out].any()
    lost, said = misses(model, films, new)
    assert lost < EPSILON + 0.04
    assert all(text.startswith("Of the last 40%") for text in said)


def test_whom_it_learned_from_is_told_none_and_whom_not_is_not(films):
    model = sr.PopulationConformal(Memory).fit(films)
    calibrates = int(model.calibration_.users[0])
    cases = profile_cases(films, 0.4)
    fits = next(int(u) for u in cases.users if u not in set(model.calibration_.users))
    told = {
        code: str(model.recommend(films.users[code], confidence=0.8).guarantee)
        for code in (calibrates, fits)
    }
    assert told[calibrates].startswith("Of the last 40%")
    assert "part of what the scorer learned from, and cannot be left out" in told[fits]


@pytest.mark.filterwarnings("ignore::surerec.errors.StaleModelWarning")
def test_over_the_calendar_too(films):
    model = sr.PopulationConformal(Memory, window=200, horizon=5).fit(films)
    said = str(
        model.recommend(films.users[int(model.calibration_.users[0])], confidence=0.8).guarantee
    )
    assert "cannot be left out" in said  # it was fitted on everything afterwards
    history = films.items.ids[:8].to_list()
    assert str(model.recommend(history=history, confidence=0.8).guarantee).startswith(
        "Of the next 5"
    )


@pytest.mark.parametrize("kind", [sr.InductiveConformal, sr.PopulationConformal])
def test_who_says_nothing_promises_nobody_anything(films, kind):
    history = films.items.ids[:8].to_list()
    for given in (Silent, Silent(sr.count_precedence(films))):
        model = kind(given).fit(films)
        for asked in ({"user": films.users[3]}, {"history": history}):
            said = str(model.recommend(**asked, confidence=0.7).guarantee)
            assert said.startswith("No guarantee: the scorer Silent does not say whether")


def test_what_comes_fitted_and_cannot_leave_out_promises_nobody_anything(films):
    model = sr.PopulationConformal(Memory(sr.count_precedence(films))).fit(films)
    history = films.items.ids[:8].to_list()
    for asked in ({"user": films.users[3]}, {"history": history}):
        said = str(model.recommend(**asked, confidence=0.8).guarantee)
        assert said.startswith("No guarantee: the scorer Memory comes fitted")
    about = model.recommend(history=history, k=10).about_hit_probability
    assert about.startswith("None: the scorer Memory")


def test_item_level_promises_cover_people_whom_it_has_not_seen(films):
    model = sr.InductiveConformal(Memory).fit(films)
    history = films.items.ids[:12].to_list()
    assert "An item new to the user that they will consume" in str(
        model.recommend(history=history, confidence=0.7).guarantee
    )
    known = str(model.recommend(films.users[3], confidence=0.7).guarantee)
    assert known.startswith("No guarantee: this user was part of")


def test_a_scorer_that_leaves_users_out_promises_everybody(films):
    model = sr.PopulationConformal(Forgets).fit(films)
    for user in (films.users[3], films.users[int(model.calibration_.users[5])]):
        assert str(model.recommend(user, confidence=0.8).guarantee).startswith("Of the last 40%")


def test_loaded_again_it_is_fitted_without_whoever_calibrates(films, tmp_path):
    model = sr.PopulationConformal(Memory).fit(films)
    model.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=Memory)
    np.testing.assert_array_equal(back.scorer_.own.taken, model.scorer_.own.taken)
    fitted = sr.load(tmp_path / "model", scorer=Memory(sr.count_precedence(films)))
    history = films.items.ids[:8].to_list()
    assert "comes fitted" in str(fitted.recommend(history=history, confidence=0.8).guarantee)


def test_recalibrating_holds_others_out(films):
    middle = int(np.quantile(films.times, 0.7))
    model = sr.PopulationConformal(Memory).fit(films.until(middle)).recalibrate(films)
    assert model.scorer_.own.taken.sum() == films.n_rows  # fitted on all, once calibrated
    calibrates = films.users[int(model.calibration_.users[0])]
    assert "cannot be left out" in str(model.recommend(calibrates, confidence=0.8).guarantee)
    renewed = sr.PopulationConformal(Memory).fit(films.until(middle))
    renewed.recalibrate(films, refit=False)
    assert not renewed.scorer_.own.taken[renewed.calibration_.users].any()


def test_an_audit_measures_both_ways_of_calibrating(films):
    found = audit(films, Memory, n_users=400, window=120)
    verdicts = {each.kind: each for each in found.verdicts}
    assert verdicts["miss-rank"].kept
    assert verdicts["miss-rank-as-used"].verdict == "does not hold"
    assert "calibrated on users it learned from" in verdicts["miss-rank-as-used"].name
    assert any("fitted on half of the users" in why for why in found.skipped)
    assert not any(kind.endswith("as-used") for kind in audit(films, "CM12").coverage["kind"])


@pytest.mark.parametrize("kind", [Memory, Silent])
def test_an_audit_of_what_comes_fitted_cannot_tell(films, kind):
    found = audit(films, kind(sr.count_precedence(films)), n_users=200, window=120)
    assert {each.verdict for each in found.verdicts} == {"cannot tell"}
    assert set(found.coverage["verdict"]) == {"cannot tell"}
    assert "comes fitted" in found.overall
    assert "holds" not in found.overall


@pytest.mark.parametrize("recipe", ["CM12", "CM3", "NCM16", Forgets])
def test_what_leaves_users_out_is_found_to(films, recipe):
    check_leaves_users_out(recipe, films)


@pytest.mark.parametrize(("trained", "n_users"), [("learned", 3), ("als", 20)])
def test_what_is_trained_leaves_users_out(trained, n_users):
    small = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2_400, seed=2)
    check_leaves_users_out(trained, small, n_users=n_users)


def test_a_false_declaration_is_caught(films):
    with pytest.raises(AssertionError, match="Liar does not leave users out"):
        check_leaves_users_out(Liar, films)
    with pytest.raises(AssertionError, match="does not say leaves_users_out = True"):
        check_leaves_users_out(Silent, films)
    with pytest.raises(AssertionError, match="comes fitted"):
        check_leaves_users_out(Memory(sr.count_precedence(films)), films)
