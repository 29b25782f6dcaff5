"""A list of fixed length, and how likely it is to please."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._columns import Columns, frame_of
from surerec._notebook import as_pandas, distinct_labels, html_card
from surerec.conformal import CalibratedProbability, venn_abers
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration._guarantee import Guarantee

_STEPS: Final = 25
_RIDGE: Final = 1e-3  # keeps the fit finite where everybody, or nobody, found a hit


@dataclass(frozen=True)
class Slate:
    """The k best items for one person, with the probability of at least one hit.

    Attributes
    ----------
    items : list
        The ids, best first.
    probability : float
        Calibrated: of people with this probability, about that share finds a hit. NaN for users
        whom the guarantee does not cover.
    low, high : float
        The two Venn–Abers probabilities: how sure the probability itself is.
    guarantee : Guarantee
        What that means.
    probabilities : list of float
        That each of the items is taken; NaN where there are none.
    at_least : tuple of float
        The chance that at least one, two, three of them are taken; NaN where there is none.
    expected_hits : float
        How many of them are taken on average: the sum of their probabilities.
    recommender : str
        Whose answer it is, by name.
    titles : list of str
        What the items are called, or their ids; empty where nobody knows.
    """

    items: list[Any]
    probability: float
    low: float
    high: float
    guarantee: Guarantee
    probabilities: list[float] = field(default_factory=list)
    at_least: tuple[float, ...] = ()
    expected_hits: float = float("nan")
    recommender: str = ""
    titles: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The probability with its interval, in words.

        Examples
        --------
        >>> from surerec.calibration import RANKING
        >>> Slate([50, 181], 0.62, 0.6, 0.63, RANKING).headline
        '62.0% that one of these 2 items new to the user is a hit (60.0% to 63.0%)'
        """
        of = f"that one of these {len(self.items)} items new to the user is a hit"
        if math.isnan(self.probability):
            return f"No probability {of}"
        return f"{self.probability:.1%} {of} ({self.low:.1%} to {self.high:.1%})"

    def to_frame(self) -> pl.DataFrame:
        """Return ``item_id``, ``rank`` and, where there are any, ``probability``."""
        columns: dict[str, Any] = {Columns.Item: self.items}
        columns[Columns.Rank] = range(1, len(self.items) + 1)
        if self.probabilities:
            columns[Columns.Probability] = np.array(self.probabilities)
        return frame_of(columns)

    def to_pandas(self) -> Any:
        """Give :meth:`to_frame` as a pandas frame, which needs pandas."""
        return as_pandas(self.to_frame())

    def _repr_html_(self) -> str:
        """Give what a notebook shows."""
        title = f"{self.headline}, by {self.recommender}"
        named = distinct_labels(self.titles or list(map(str, self.items)), self.items)
        frame = self.to_frame().select(
            Columns.Rank, pl.Series("item", named), pl.col(f"^{Columns.Probability}$")
        )
        return html_card(title, frame, f"Guarantee: {self.guarantee}", bar="probability")

    def worth_serving(
        self, at_least: float | None = None, *, expected_hits: float | None = None
    ) -> bool:
        """Tell whether a hit is likely enough, or enough hits are to be expected.

        Examples
        --------
        >>> from surerec.calibration import RANKING
        >>> slate = Slate([50, 181], 0.62, 0.6, 0.63, RANKING, [0.4, 0.3], (0.62, 0.1, 0.0), 0.7)
        >>> slate.worth_serving(0.5), slate.worth_serving(expected_hits=1)
        (True, False)
        """
        if at_least is None and expected_hits is None:
            raise InputError("Say what is worth serving: give at_least or expected_hits.")
        likely = at_least is None or self.probability >= at_least
        return likely and (expected_hits is None or self.expected_hits >= expected_hits)


def slate_features(
    n_known: NDArray[np.int64], values: NDArray[np.floating], masses: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Give what tells one person's slate from another's, a row for each.

    How much is known of them (long profiles have used up the obvious items), the mean value of the
    slate's items, and their share of all scores.
    """
    return np.column_stack((np.log1p(n_known), values, masses)).astype(np.float64)


def hit_probabilities(
    features: NDArray[np.float64], hit: NDArray[np.bool_], new: NDArray[np.float64]
) -> CalibratedProbability:
    """Return the probability of a hit for each new row of features.

    The bounds are calibrated whatever the features are worth: a logistic regression on every other
    calibration user makes one score of the features, and the users in between turn that into two
    Venn–Abers probabilities. Then they change places, and both answers are averaged. The
    probability is that of a logistic regression on all of them, which is right on average, within
    the bounds; merging the bounds alone would lean to 1/2 where few users are alike.
    """
    scale = features.std(axis=0)
    kept = scale > 0
    known, wanted = (
        (some[:, kept] - features[:, kept].mean(axis=0)) / scale[kept] for some in (features, new)
    )
    halves = slice(0, None, 2), slice(1, None, 2)
    if len(known) < len(halves):
        raise InputError("The probability of a hit needs at least two calibration users.")
    answers = []
    for learn, calibrate in (halves, halves[::-1]):
        weights = _logistic(known[learn], hit[learn])[:-1]
        answers.append(venn_abers(known[calibrate] @ weights, hit[calibrate], wanted @ weights))
    low, high = (
        np.mean([getattr(each, end) for each in answers], axis=0) for end in ("low", "high")
    )
    *slopes, intercept = _logistic(known, hit)
    said = 1 / (1 + np.exp(-(wanted @ np.array(slopes) + intercept)))
    return CalibratedProbability(np.clip(said, low, high), low, high)


def _logistic(features: NDArray[np.float64], hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return coefficients by Newton's method, the intercept last: it is hardly penalised."""
    design = np.column_stack((features, np.ones(len(features))))
    weights = np.zeros(design.shape[1])
    ridge = np.full(len(weights), _RIDGE * len(hit))
    ridge[-1] = _RIDGE
    for _ in range(_STEPS):
        said = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (hit - said) - ridge * weights
        curvature = (design.T * (said * (1 - said))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        weights += step
        if np.abs(step).max() < 1e-8:  # noqa: PLR2004
            break
    return weights
