"""What every recommender is, and how it is stored.

It is fitted (`_fitted.py`), says what may be asked of it (`_offers.py`), and answers about one
person (`_asking.py`) and about many (`_many.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from surerec._arguments import check_flag, check_path, check_text
from surerec.recommenders._many import AskingMany
from surerec.storage import RecommenderSpec, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.measures import Recipe, Scorer
    from surerec.precedence import PrecedenceStatistics


class Recommender(AskingMany):
    """Base of the recommenders: a recipe and a calibration, behind one set of questions."""

    def to_spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics."""
        recipe, scorer = self.recipe(), self.scorer_
        parts = recipe.parts(scorer)
        params = self._stored_params(recipe)
        arrays = {**parts.arrays, **self._calibration_arrays()}
        texts = {**parts.texts, **self._calibration_texts()}
        return RecommenderSpec(type(self).__name__, params, arrays, texts)

    def _stored_params(self, recipe: Recipe) -> dict[str, Any]:  # noqa: ARG002
        return self.settings()

    def _calibration_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays that its calibration is made of, to be saved."""
        return {}

    def _calibration_texts(self) -> dict[str, str]:
        """Give the texts that its calibration is made of, to be saved."""
        return {}

    def restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        """Be as it was when saved; KeyError or ValueError if it has no use for these parts.

        A recommender with parts takes them instead of learning again.
        """
        recipe = self.recipe()
        self._take(statistics)
        self._restore_texts({name: text for name, text in texts.items() if not recipe.owns(name)})
        of_scorer = {name: array for name, array in arrays.items() if recipe.owns(name)}
        rest = {name: array for name, array in arrays.items() if name not in of_scorer}
        self._restore_calibration(rest)
        said = {name: text for name, text in texts.items() if recipe.owns(name)}
        self._keep_scorer(self._restored_scorer(recipe, of_scorer, said))
        return self

    def _restored_scorer(
        self, recipe: Recipe, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str]
    ) -> Scorer:
        return recipe.restore(self.statistics_, arrays, texts)

    def _restore_texts(self, texts: Mapping[str, str]) -> None:
        if texts:
            raise ValueError(f"{type(self).__name__} has no such texts")

    def _restore_calibration(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if arrays:
            raise ValueError(f"{type(self).__name__} has none")

    def save(
        self, folder: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
    ) -> None:
        """Save it in a model folder, which :func:`surerec.load` opens.

        Parameters
        ----------
        folder : path-like
            A new folder, or a model folder with the same statistics, to which it is added. The
            folder holds people's histories: keep it as you keep those.
        name : str, optional
            Its name in the folder; by default the paper's, such as "icrs12".
        overwrite : bool, default=False
            Replace what a model folder with other statistics holds.
        """
        place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
        specs = {check_text("name", self.default_name() if name is None else name): self.to_spec()}
        save_model(place, self.statistics_, specs, overwrite=replaces)
