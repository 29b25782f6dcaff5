import numpy as np
import pytest

from surerec.audit._verdicts import LEVEL, interval_over_users, of_kind, overall


@pytest.mark.parametrize("n", [25, 100, 1000])
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_intervals_have_their_nominal_coverage(n, rate):
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(1000):
        _, low, high = interval_over_users(rng.random(n) < rate)
        covered += low <= 1 - rate <= high
    assert covered / 1000 > LEVEL - 0.015


@pytest.mark.parametrize("random_state", range(22))
def test_an_interval_contains_its_mean(random_state):
    """Rounding must not move an end beyond the mean: figures refuse bars of negative length."""
    rng = np.random.default_rng(random_state)
    for n in rng.integers(1, 400, size=50):
        for rate in (0, 0.02, 0.98, 1):
            for losses in (rng.random(n) < rate, rng.random(n) * rate):
                mean, low, high = interval_over_users(losses)
                assert 0 <= low <= mean <= high <= 1


def row(epsilon, low, high, kind="item-time", **more):
    middle = (low + high) / 2
    return {"kind": kind, "name": kind, "epsilon": epsilon, "nominal": 1 - epsilon, "n": 9,
            "observed": middle, "low": low, "high": high, "unit": "users", **more}  # fmt: skip


def test_a_sentence_reports_the_level_that_fails():
    kept = of_kind([row(0.1, 0.89, 0.92), row(0.5, 0.49, 0.52)])
    assert (kept.verdict, kept.row["epsilon"]) == ("holds", 0.1)
    failed = of_kind([row(0.1, 0.89, 0.92), row(0.5, 0.39, 0.42)])
    assert (failed.verdict, failed.row["epsilon"]) == ("does not hold", 0.5)
    assert failed.sentence == (
        "item-time: nominal 50%, observed 40.5% [39.0–42.0], over items new to the user: "
        "does not hold."
    )
    assert of_kind([row(0.1, 0.92, 0.95), row(0.5, 0.49, 0.53)]).verdict == "holds"
    assert of_kind([row(0.1, 0.92, 0.95), row(0.5, 0.51, 0.53)]).verdict == "conservative"
    assert of_kind([row(0.1, 0.6, 0.95)]).verdict == "cannot tell"
    assert "9 users are too few to tell" in of_kind([row(0.1, np.nan, np.nan)]).sentence
    alone = row(0.1, np.nan, np.nan) | {"n": 1, "unit": "windows"}
    assert "1 window is too few to tell" in of_kind([alone]).sentence


def test_a_sentence_counts_the_windows_below_nominal():
    rows = [row(0.1, 0.89, 0.92, windows_below=0), row(0.2, 0.79, 0.82, windows_below=2)]
    found = of_kind(rows)
    assert found.verdict == "holds in part"
    assert "significantly below 80% in 2 of 9 windows" in found.sentence


@pytest.mark.parametrize(
    ("item", "user", "advice"),
    [
        (0.8, 0.9, "use the user-level guarantee"),
        (0.9, 0.9, "both hold here"),
        (0.8, 0.8, "rely on neither"),
        (0.9, 0.8, "use item-level p-values"),
    ],
)
def test_the_summary_follows_the_verdicts(item, user, advice):
    found = {"item-time": item, "recall-score": user}
    verdicts = [of_kind([row(0.1, at - 0.01, at + 0.02, kind)]) for kind, at in found.items()]
    assert advice in overall(verdicts, None)


def test_the_summary_compares_guarantees_at_one_level():
    bad = of_kind([row(0.1, 0.89, 0.92), row(0.5, 0.39, 0.41)])
    users = of_kind([row(e, 1 - e, 1 - e + 0.02, kind="recall-score") for e in (0.1, 0.5)])
    summary = overall([bad, users], None)
    assert "in time order have 40.0% [39.0–41.0] observed (50% nominal)" in summary
    assert "guarantee has 51.0% [50.0–52.0] observed (50% nominal)" in summary
