"""A process that opens model folders and asks them everything: see `fuzz.folders`."""

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
    """Answer each line of the input with one line: answers, refusals, or a signature."""
    warnings.simplefilter("ignore")
    _limit(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries in C write what they like to the output
    for line in sys.stdin:
        question = json.loads(line)
        told = _told(question["folder"], verify=question["verify"])
        print(json.dumps(told), file=answers, flush=True)


def _told(folder: str, *, verify: bool) -> dict[str, Any]:
    try:
        models = load_all(folder, verify=verify)
        if models:
            sr.load(folder, verify=verify)
        return {"answers": {name: _digest(model) for name, model in models.items()}}
    except SurerecError as error:
        return {"refused": [str(error)]}
    except BaseException as error:  # noqa: BLE001  # polars' panics are no Exceptions
        return {"failed": f"{signature(error)}: {str(error)[:80]}"}


def _digest(model: Recommender) -> str:
    """Give all answers, shortened: users and new people, one and many, explained."""
    answers: list[Any] = []
    asked: dict[str, Any] = (
        {"confidence": 0.8} if "confidence" in model.model_.features else {"k": 10}
    )
    for whom in [{"user": user} for user in USERS] + [{"history": HISTORY}]:
        answers += _asked(lambda whom=whom: _rows(model.recommend(**whom, **asked)))
        answers += _asked(lambda whom=whom: repr(model.explain(**whom, item=_ITEM)))
    if "confidence" in model.model_.features:
        answers += _asked(lambda: model.p_values(USERS[0]).rows())
    answers += _asked(lambda: model.recommend_many(**{**asked, "k": 5}).rows())
    if isinstance(model, sr.PopulationConformal):
        answers += _asked(lambda: repr(model.recommend(USERS[0], k=5).hits))
    return hashlib.sha256(repr(answers).encode()).hexdigest()


def _rows(picks: sr.RecommendationSet) -> Any:
    return picks.to_frame().rows(), picks.guarantee, picks.significance


def _asked(question: Any) -> list[Any]:
    """Answer, or refuse: a person of whom nothing is known is no failure."""
    try:
        return [question()]
    except SurerecError as error:
        if "\n" in str(error).strip():
            raise RuntimeError("a refusal of several lines") from error
        return [str(error)]


def _limit(megabytes: int) -> None:
    """Let nothing take much more memory than the libraries have now."""
    with open("/proc/self/statm") as sizes:  # noqa: PTH123
        pages = int(sizes.read().split()[0])
    most = pages * resource.getpagesize() + megabytes * _UNIT
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
