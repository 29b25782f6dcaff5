"""A process that loads model folders and queries them; see `fuzz.folders`."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

import surerec as sr
from fuzz.models import HISTORY, USERS
from fuzz.tally import signature
from surerec.errors import SurerecError
from surerec.recommenders import load_all

if TYPE_CHECKING:
    from surerec.recommenders import Recommender

_ITEM: Final = 17
_UNIT: Final = 1 << 20


def main() -> None:
    """Write one line for each line of input: answers, an error, or a signature."""
    warnings.simplefilter("ignore")
    _limit(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # C libraries may write to stdout
    for line in sys.stdin:
        request = json.loads(line)
        reply = _reply(request["folder"], verify=request["verify"])
        print(json.dumps(reply), file=answers, flush=True)


def _reply(folder: str, *, verify: bool) -> dict[str, Any]:
    try:
        models = load_all(folder, verify=verify)
        if models:
            sr.load(folder, verify=verify)
        return {"answers": {name: _digest(model) for name, model in models.items()}}
    except SurerecError as error:
        return {"refused": [str(error)]}
    except BaseException as error:  # noqa: BLE001  # panics of polars are not Exceptions
        return {"failed": f"{signature(error)}: {str(error)[:80]}"}


def _digest(model: Recommender) -> str:
    """Return a digest of all answers: known and new users, one and many, explanations."""
    answers: list[Any] = []
    options: dict[str, Any] = (
        {"confidence": 0.8} if "confidence" in model.model_.features else {"k": 10}
    )
    for query in [{"user": user} for user in USERS] + [{"history": HISTORY}]:
        answers += _answer(lambda query=query: _rows(model.recommend(**query, **options)))
        answers += _answer(lambda query=query: repr(model.explain(**query, item=_ITEM)))
    if "confidence" in model.model_.features:
        answers += _answer(lambda: model.p_values(USERS[0]).rows())
    answers += _answer(lambda: model.recommend_many(**{**options, "k": 5}).rows())
    if isinstance(model, sr.PopulationConformal):
        answers += _answer(lambda: repr(model.recommend(USERS[0], k=5).hits))
    return hashlib.sha256(repr(answers).encode()).hexdigest()


def _rows(picks: sr.RecommendationSet) -> Any:
    return picks.to_frame().rows(), picks.guarantee, picks.significance


def _answer(ask: Any) -> list[Any]:
    """Return the answer, or the error message: an unknown user is not a failure."""
    try:
        return [ask()]
    except SurerecError as error:
        if "\n" in str(error).strip():
            raise RuntimeError("an error of several lines") from error
        return [str(error)]


def _limit(megabytes: int) -> None:
    """Limit the memory beyond what the libraries use now."""
    with open("/proc/self/statm") as sizes:  # noqa: PTH123
        pages = int(sizes.read().split()[0])
    most = pages * resource.getpagesize() + megabytes * _UNIT
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
