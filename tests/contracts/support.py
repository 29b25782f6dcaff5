"""Which scorer has which guarantee on which surface: ``docs/reference/support.md``.

``python -m tests.contracts.support`` writes the page. Each cell is an answer that was asked for on
small data, so that the page says what the code does. A "no" has the reason that the code gives.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import surerec as sr
from surerec.adapters import Factors, ItemItem
from surerec.audit import audit
from surerec.calibration import profile_cases
from surerec.live import Live

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "support.md"
DATA = sr.datasets.synthetic(n_users=400, n_items=60, n_rows=9_000, random_state=1)
LATER = profile_cases(DATA, 0.4).future_rows()
PAST, FUTURE = DATA.keeping(~LATER), DATA.keeping(LATER)
USERS = DATA.users.ids.gather(np.flatnonzero(np.diff(PAST.offsets) >= 8)).to_list()
HISTORIES = [DATA.items.ids[some:].to_list()[:8] for some in (0, 20)]
SEGMENTS = {user: "even" if user % 2 == 0 else "odd" for user in DATA.users.ids}
TASTES = np.random.default_rng(4).random((DATA.n_users + DATA.n_items, 6), dtype=np.float32)
OF_USERS, OF_ITEMS = TASTES[: DATA.n_users], TASTES[DATA.n_users :]
LEVEL = 0.5
YES = "yes"


class Refitted:
    """A model to wrap of which copies are fitted here."""

    def fit(self, interactions):
        self.counts = np.bincount(interactions.item_codes, minlength=interactions.n_items)

    def score(self, history):  # noqa: ARG002
        return self.counts


class Careful:
    """A scorer of one's own, made from statistics, that leaves users out."""

    leaves_users_out = True

    def __init__(self, statistics):
        self.statistics = statistics

    def score(self, history, *, without_user=None):  # noqa: ARG002
        support = self.statistics.support.astype(float)
        support[self.statistics.consumed_by(without_user)[0]] -= 1
        return support


def popular(statistics):
    """Build a scorer of one's own that cannot leave users out, and can be fitted again."""

    class Popular:
        leaves_users_out = False

        def score(self, history, *, without_user=None):  # noqa: ARG002
            return statistics.support.astype(float)

    return Popular()


def latest(histories):
    """Score by nearness to the last item: a function to wrap."""
    items = PAST.items.ids.to_list()
    return [[-abs(item - history[-1]) for item in items] for history in histories]


MEASURES = {
    "the 17 measures (CM12)": "CM12",
    "learned": "learned",
    "als": "als",
    "your scorer, leaving users out": Careful,
    "your scorer, fitted without calibration users": popular,
}
IDS = {"items": PAST.items.ids.to_list(), "users": PAST.users.ids.to_list()}
NEW = {"items": IDS["items"], "covers": "new-users"}
WRAPPED = {
    "wrapped factors (matrix factorisation)": (Factors(OF_USERS, OF_ITEMS, (0.1, 2.0)), IDS),
    "wrapped item–item weights": (ItemItem(OF_ITEMS @ OF_ITEMS.T), NEW),
    "wrapped function": (latest, NEW),
}
GUARANTEES = {
    "recall": {},
    "hit": {"guarantee": "hit", "horizon": 5},
    "precision": {"guarantee": "precision"},
    "recall, temporal split": {"window": 150},
    "recall by segment": {"segments": "parity"},
}


@dataclass(frozen=True)
class Case:
    """A recommender, and how to ask it."""

    scorer: str
    guarantee: str
    fit: object

    @property
    def request(self):
        """The level to ask at."""
        levels = {"ranking": {}, "precision": {"precision": 0.2}}
        return levels.get(self.guarantee, {"confidence": LEVEL})

    @cached_property
    def model(self):
        """The fitted recommender."""
        return self.fit()

    @cached_property
    def users(self):
        """Users whom the guarantee covers, if it covers any of the data."""
        rows = self.model.recommend_many(USERS[:60], **self.request)
        covered = rows.filter(rows["covered"])["user_id"].unique(maintain_order=True).to_list()
        return covered if len(covered) > 1 else USERS

    @property
    def user(self):
        """The first of them."""
        return self.users[0]


def fit(make, *data):
    """Fit a recommender, or calibrate it on a past and a future, by segment if it has any."""
    model = make()
    more = {"user_segments": SEGMENTS} if model.get_params().get("segments") == "parity" else {}
    return model.fit(*data, **more) if len(data) == 1 else model.calibrate(*data, **more)


def cases():
    """Return all of them."""
    makers = {}
    for scorer, measure in MEASURES.items():
        makers[scorer, "item"] = partial(sr.InductiveConformal, measure), DATA
        for guarantee, settings in GUARANTEES.items():
            makers[scorer, guarantee] = partial(sr.PopulationConformal, measure, **settings), DATA
    for scorer, (model, ids) in WRAPPED.items():
        for guarantee, settings in GUARANTEES.items():
            if "window" not in settings:  # calibrate(past, future) has the split already
                makers[scorer, guarantee] = partial(sr.wrap, model, **ids, **settings), PAST, FUTURE
    for guarantee in ("recall", "recall, temporal split"):
        make = partial(sr.wrap, Refitted(), covers="fit", **GUARANTEES[guarantee])
        makers["wrapped class, fitted here", guarantee] = make, DATA
    makers["CRS (precedence scores)", "item"] = sr.TransductiveConformal, DATA
    makers["precedence mining", "ranking"] = sr.PrecedenceMining, DATA
    return [Case(*names, partial(fit, *made)) for names, made in makers.items()]


def of_user(case, _):
    """Ask for a user of the data."""
    return case.model.recommend(case.user, **case.request).guarantee


def of_history(case, _):
    """Ask for a new user."""
    segment = {"segment": "even"} if "segment" in case.guarantee else {}
    return case.model.recommend(history=HISTORIES[0], **segment, **case.request).guarantee


def short_list(case, _):
    """Ask for a short list with the probability of a hit."""
    segment = {"segment": "even"} if "segment" in case.guarantee else {}
    found = case.model.recommend(case.user, k=5)
    if found.hit_probability is None:
        found = case.model.recommend(history=HISTORIES[0], k=5, **segment)
    return YES if found.hit_probability is not None else found.about_hit_probability


def batch(case, _):
    """Ask for many users."""
    return YES if len(case.model.recommend_many(USERS[:5], k=3)) else "empty"


def explained(case, _):
    """Ask why."""
    item = case.model.recommend(case.user, k=1).items[0]
    said = case.model.explain(case.user, item=item).sentences()
    return YES if said else "The model has no contributions of items, and no counts are made."


def item_list(case, _):
    """Calibrate on an item list, and ask for it."""
    case.model.add_item_list("tonight", DATA.items.ids[:30].to_list())
    return case.model.recommend(case.user, item_list="tonight", **case.request).guarantee


def group(case, _):
    """Ask for a group: of users, or of new ones."""
    found = case.model.recommend(group=case.users[:2], **case.request).guarantee
    return found if found.holds else case.model.recommend(group=HISTORIES, **case.request).guarantee


CODE = {
    "your scorer, leaving users out": "Careful",
    "your scorer, fitted without calibration users": "popular",
    "wrapped function": "latest",
    "wrapped class, fitted here": "fitted",
}
fitted = None


def code_of(case):
    """Return where to import the scorer of a model that a folder cannot store."""
    here = import_module("tests.contracts.support")  # also if this file runs as a script
    here.fitted = getattr(case.model, "wrapped_", None)
    return f"{here.__name__}:{CODE[case.scorer]}" if case.scorer in CODE else None


def folder(case, place):
    """Save it, and load it again."""
    case.model.save(place / "model")
    back = sr.load(place / "model", scorer=code_of(case))
    alike = back.recommend(case.user, **case.request).items == of_items(case)
    return YES if alike else "loaded it answers otherwise"


def of_items(case):
    """Return the items of the covered user."""
    return case.model.recommend(case.user, **case.request).items


def served(case, place):
    """Ask the operation of the server for its folder."""
    from surerec.serving._models import load  # noqa: PLC0415  # an extra
    from surerec.serving._operations import recommend  # noqa: PLC0415
    from surerec.serving._schemas import RecommendRequest  # noqa: PLC0415

    case.model.save(place / "model")
    asked = RecommendRequest(user=case.user, **case.request)
    rows = load(place / "model", code_of(case)).answer(recommend, asked)["items"]
    alike = [row["item_id"] for row in rows] == of_items(case)
    return YES if alike else "over HTTP it answers otherwise"


def live(case, place):
    """Make it live, and ask after an event."""
    with Live.create(place / "live", case.model) as model:
        model.observe([{"user": case.user, "item": of_items(case)[0]}])
        model.recommend(case.user, **case.request)
    return YES


def audited(case, _):
    """Audit it."""
    return YES if len(audit(case.model, n_users=60, window=150.0).coverage) else "nothing measured"


SURFACES = {
    "user": of_user,
    "new user": of_history,
    "short list": short_list,
    "batch": batch,
    "explanation": explained,
    "item list": item_list,
    "group": group,
    "save, CLI, Spark": folder,
    "HTTP": served,
    "live": live,
    "audit": audited,
}


def ask(case, surface):
    """Return "yes", or why not."""
    with TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = SURFACES[surface](case, Path(place))
        except sr.InputError as error:
            return plain(str(error))
    if isinstance(found, str):
        return found
    return YES if found.holds else plain(f"No guarantee: {found.reason}.")


def plain(reason):
    """Return a reason without the names of this page's models."""
    named = r"(the scorer )?(Careful|Popular|popular|latest|Factors|ItemItem|Refitted|als)\b"
    return re.sub(rf"^(No guarantee: )?{named}", r"\1The model", " ".join(reason.split()))


def page(found):
    """Return the page of answers, by case and surface."""
    reasons = list(dict.fromkeys(said for said in found.values() if said != YES))
    mark = {YES: "✓", **{said: f"[{n}](#r{n})" for n, said in enumerate(reasons, start=1)}}
    head = ["Scorer", "Guarantee", *SURFACES]
    lines = ["|".join(head), "|".join("---" for _ in head)]
    alike = {}  # guarantees of one scorer with the same cells share a row
    for scorer, guarantee in dict.fromkeys((scorer, guarantee) for scorer, guarantee, _ in found):
        cells = tuple(mark[found[scorer, guarantee, surface]] for surface in SURFACES)
        alike.setdefault((scorer, cells), []).append(guarantee)
    for (scorer, cells), guarantees in alike.items():
        lines.append("|".join((scorer, "; ".join(guarantees), *cells)))
    table = "\n".join(f"|{line}|" for line in lines)
    notes = "\n".join(f'{n}. <a id="r{n}"></a>{said}' for n, said in enumerate(reasons, start=1))
    return f"""# What works with what

✓: the request is answered, with a guarantee where the column has one. A number is the reason why
not, in the words of the code. `python -m tests.contracts.support` writes this page by making every
request on small synthetic data.

- *user*: a user of the data. *new user*: `history=`. *short list*: `k=`, with the probability of a
  hit.
- *item list*: `add_item_list(…)` and `item_list=`. *group*: `group=[…]`, of users or of new users.
- *save, CLI, Spark*: a saved folder is all that the command line, the server and Spark need;
  code of your own is imported (`--scorer package.module:object`).
- Wrapped models here are calibrated by `calibrate(past, future)`; the future may be any split.

{table}

## Reasons

{notes}
"""


def answers():
    """Ask for every cell."""
    found = {}
    for case in cases():
        for surface in SURFACES:
            found[case.scorer, case.guarantee, surface] = ask(case, surface)
    return found


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(answers()))
