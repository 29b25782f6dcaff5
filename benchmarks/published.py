"""Next-item protocols of published sequence models: all items ranked, seen items filtered.

``python -m benchmarks.published FILE [--protocol last temporal …] [--only EASE …]`` reads a table
with the columns user_id, item_id and timestamp, each user's rows in time order. It prints HR@10,
NDCG@10 with its standard error, the 90% rank (the size of a next-item set at confidence 0.9), and
the time of the fit and of one user's scores.

- ``last``: the last item of each user is the target, and everything else is fitted.
- ``matched``: the same targets, fitted on the rows whose column `part` is "train", as gSASRec was.
- ``validation``: the second-last item is the target; last items are never seen. For settings.
- ``temporal``: fitted on the rows up to the 0.9 quantile of time. The target is the last item of
  each user with later rows, and the history is all before it (arXiv 2507.16289).

surerec's own measures leave a user out of the scores of that user. The other models do not.
``--ablate`` trains the learned measure without some ingredient at a time.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import polars as pl
from scipy import sparse

import surerec as sr
from surerec._threads import run_blocks
from surerec.adapters import adapt
from surerec.measures import Query, as_measure
from surerec.measures.learned import _examples, _model, _training
from surerec.measures.learned._features import EXTRAS, describe_features

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    Score = Callable[[Sequence["Case"]], NDArray[np.floating]]

PUBLISHED = {
    "last": (
        "SASRec .250/.134, BERT4Rec .282/.152, gSASRec .300/.173, SASRec with cross-entropy and "
        "3,000 negatives .316/.186 (HR@10/NDCG@10; asash/gSASRec-pytorch, asash/bert4rec_repro, "
        "antklen/sasrec-bert4rec-recsys23)"
    ),
    "temporal": "NDCG@10: SASRec+ .0948, BERT4Rec .0867, GRU4Rec .0830 (arXiv 2507.16289)",
}
_TEN = 10
_AT_ONCE = 64
_UNDERTRAINED = 0.12  # NDCG@10 on leave-one-out


class Case(NamedTuple):
    """A user's history and next item, as codes of the fitted data."""

    user: int
    """Code of the user; −1 for a user who was not fitted."""
    history: NDArray[np.int64]
    target: int
    """−1 for an item that was not fitted, which counts as ranked last."""


class Protocol(NamedTuple):
    """The rows to fit, and the cases."""

    fitted: sr.Interactions
    cases: list[Case]

    @classmethod
    def of(cls, rows: pl.DataFrame, name: str, n_users: int) -> Protocol:
        """Split rows; at most `n_users` users, drawn at random, are cases."""
        from_end = pl.int_range(pl.len()).reverse().over("user_id")
        if name == "temporal":
            split = rows["timestamp"].quantile(0.9, "nearest")
            fitted, held_out = pl.col("timestamp") <= split, pl.col("timestamp") > split
            is_target = held_out & (from_end == 0)
        else:
            rows = rows.filter(from_end > 0) if name == "validation" else rows
            is_target = from_end == 0
            fitted = pl.col("part") == "train" if name == "matched" else from_end > 0
        marked = rows.with_columns(is_target=is_target, is_fitted=fitted)
        data = sr.read_interactions(marked.filter("is_fitted").drop("is_target", "is_fitted"))
        coded = marked.select(
            "user_id",
            "is_target",
            user=pl.Series(data.users.codes(marked["user_id"])),
            item=pl.Series(data.items.codes(marked["item_id"])),
        )
        tested = coded.filter(pl.col("is_target").any().over("user_id"))
        cases = []
        for part in tested.partition_by("user_id", maintain_order=True):
            items = part["item"].to_numpy()
            history = items[:-1][items[:-1] >= 0]
            if len(history):
                cases.append(Case(part["user"][0], history, int(items[-1])))
        drawn = np.random.default_rng(0).permutation(len(cases))[:n_users]
        return cls(data, [cases[k] for k in np.sort(drawn)])


def _one_hot(histories: Sequence[NDArray[np.integer]], n_items: int) -> sparse.csr_array:
    """Return a binary matrix with a row for each history."""
    starts = np.cumsum([0, *(len(each) for each in histories)])
    items = np.concatenate([np.asarray(each, np.int64) for each in histories])
    return sparse.csr_array((np.ones(len(items)), items, starts), shape=(len(histories), n_items))


def _all_profiles(data: sr.Interactions) -> sparse.csr_array:
    return _one_hot([data.consumed(user) for user in range(data.n_users)], data.n_items)


def popularity(data: sr.Interactions) -> Score:
    support = np.bincount(data.item_codes, minlength=data.n_items).astype(float)
    return lambda cases: np.tile(support, (len(cases), 1))


def ease(data: sr.Interactions, penalty: float = 500.0) -> Score:
    consumed = _all_profiles(data)
    inverse = np.linalg.inv((consumed.T @ consumed).toarray() + penalty * np.eye(data.n_items))
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    return lambda cases: _one_hot([case.history for case in cases], data.n_items) @ weights


def item_knn(data: sr.Interactions, n_neighbours: int = 20) -> Score:
    consumed = _all_profiles(data)
    counts = (consumed.T @ consumed).toarray()
    length = np.sqrt(np.maximum(counts.diagonal(), 1))
    cosine = counts / length[:, None] / length
    np.fill_diagonal(cosine, 0.0)
    cosine[cosine < np.sort(cosine, axis=0)[-n_neighbours]] = 0.0
    return lambda cases: _one_hot([case.history for case in cases], data.n_items) @ cosine


def implicit_als(data: sr.Interactions) -> Score:
    from implicit.als import AlternatingLeastSquares  # noqa: PLC0415  # an extra

    model = AlternatingLeastSquares(64, random_state=0)
    model.fit(sparse.csr_matrix(_all_profiles(data)), show_progress=False)

    def score(cases: Sequence[Case]) -> NDArray[np.floating]:
        histories = sparse.csr_matrix(_one_hot([case.history for case in cases], data.n_items))
        users = model.recalculate_user(np.arange(len(cases)), histories)
        found: NDArray[np.floating] = users @ model.item_factors.T
        return found

    return score


def measure(name: str, horizon: float) -> Callable[[sr.Interactions], Score]:
    def fit(data: sr.Interactions) -> Score:
        scorer = as_measure(name, horizon=horizon).fit(sr.count_precedence(data))

        def score(cases: Sequence[Case]) -> NDArray[np.floating]:
            users = [(case.user,) if case.user >= 0 else () for case in cases]
            return scorer.score_many(
                [Query(case.history, user) for case, user in zip(cases, users, strict=True)]
            )

        return score

    return fit


def without(
    names: Collection[str], *, n_likely: int = 200, n_users: int = 5400
) -> Callable[[sr.Interactions], Score]:
    """Return the learned measure for next items whose trees do not split by some features."""
    offered = [*describe_features(("sequence", "matrix factorisation"))]
    of_all = _training.SelectedComponents.columns

    def columns(selected: _training.SelectedComponents) -> NDArray[np.int64]:
        return np.array([k for k in of_all(selected) if offered[k] not in names])

    def fit(data: sr.Interactions) -> Score:
        with (
            mock.patch.object(_training.SelectedComponents, "columns", columns),
            mock.patch.object(_examples, "_N_LIKELY", n_likely),
            mock.patch.dict(_model._MOST_USERS, {True: n_users}),  # noqa: SLF001
        ):
            return measure("learned", 1)(data)

    return fit


def sasrec(data: sr.Interactions) -> Score:
    """Train RecTools' SASRec for some minutes on the CPU, on all rows, as `sr.wrap` scores it."""
    from rectools.models import SASRecModel  # noqa: PLC0415  # an extra

    model = SASRecModel(session_max_len=100, n_factors=64, epochs=15, loss="softmax", verbose=0)
    fitted = adapt(model).fitted_on(data)
    columns = fitted.catalogue.codes(data.items.ids)

    def score(cases: Sequence[Case]) -> NDArray[np.floating]:
        found = fitted.score_histories([columns[case.history] for case in cases])
        scores: NDArray[np.floating] = np.nan_to_num(found[:, columns].astype(float), nan=-np.inf)
        return scores

    return score


MODELS: dict[str, Callable[[sr.Interactions], Score]] = {
    "popularity": popularity,
    "EASE": ease,
    "ItemKNN": item_knn,
    "implicit ALS": implicit_als,
    "surerec CM12": measure("CM12", 1),
    "surerec als": measure("als", 1),
    "surerec learned, horizon=0.4": measure("learned", 0.4),
    "surerec learned, horizon=1": measure("learned", 1),
    "SASRec (RecTools)": sasrec,
}

_RIDGES = ("sequence", "long_sequence")
ABLATIONS = {
    "without the sequential ridges": without(_RIDGES),
    "without the long one": without(_RIDGES[1:]),
    "without transitions": without([name for name in EXTRAS["sequence"] if name not in _RIDGES]),
    "without the score of ALS": without(["preference"]),
    "without likely negatives": without((), n_likely=0),
    "of 2,700 users": without((), n_users=2700),
}


def ranks(score: Score, cases: Sequence[Case]) -> NDArray[np.float64]:
    """Return the rank of each target among the items outside the history; ties share a rank."""

    def some(start: int) -> list[float]:
        block, found = cases[start : start + _AT_ONCE], []
        for case, scores in zip(block, score(block), strict=True):
            scores[case.history] = -np.inf
            own = scores[case.target] if case.target >= 0 else -np.inf
            found.append(1 + (scores > own).sum() + ((scores == own).sum() - 1) / 2)
        return found

    blocks = run_blocks(some, range(0, len(cases), _AT_ONCE))
    return np.array([rank for block in blocks for rank in block])


def gains(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the NDCG@10 of each rank."""
    return np.where(found <= _TEN, 1 / np.log2(found + 1), 0.0)


def figures(found: NDArray[np.float64]) -> dict[str, float]:
    """Return HR@10, NDCG@10 with its standard error, and the 90% rank."""
    each = gains(found)
    return {
        "HR@10": float(np.mean(found <= _TEN)),
        "NDCG@10": float(each.mean()),
        "error": float(each.std() / np.sqrt(len(found))),
        "rank": float(np.quantile(found, 0.9, method="higher")),
    }


def lines(protocol: Protocol, names: Sequence[str], label: str) -> Iterator[str]:
    """Yield a line for each model."""
    for name in names:
        begin, spent = time.perf_counter(), time.process_time()
        try:
            score = MODELS[name](protocol.fitted)
        except ImportError as error:
            yield f"{name:30} not installed ({error.name})"
            continue
        fitted, spent = time.perf_counter() - begin, time.process_time() - spent
        begin = time.perf_counter()
        of: dict[str, Any] = figures(ranks(score, protocol.cases))
        each = 1e3 * (time.perf_counter() - begin) / len(protocol.cases)
        undertrained = (
            name.startswith("SASRec") and label != "temporal" and of["NDCG@10"] < _UNDERTRAINED
        )
        yield (
            f"{name:30}{of['HR@10']:.4f}  {of['NDCG@10']:.4f} ± {of['error']:.4f}  "
            f"{of['rank']:6,.0f}  {fitted:6.1f} s ({spent:.0f} s of CPU)  {each:5.1f} ms"
            + (" (undertrained: no baseline)" if undertrained else "")
        )


def ablation(protocol: Protocol) -> Iterator[str]:
    """Yield the change of NDCG@10 and of the 90% rank without each ingredient, also by halves."""
    whole = ranks(measure("learned", 1)(protocol.fitted), protocol.cases)
    half = np.random.default_rng(0).permutation(len(whole)) % 2
    for name, fit in ABLATIONS.items():
        found = ranks(fit(protocol.fitted), protocol.cases)
        change = gains(found) - gains(whole)
        changes = []
        for users in (half >= 0, half == 0, half == 1):
            before, after = figures(whole[users]), figures(found[users])
            both = (after[key] - before[key] for key in ("NDCG@10", "rank"))
            changes.append("{:+.4f} / {:+.0f}".format(*both))
        yield (
            f"{name:30}{changes[0]} (± {change.std() / np.sqrt(len(change)):.4f}); halves: "
            f"{', '.join(changes[1:])}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="table with user_id, item_id, timestamp and perhaps part")
    parser.add_argument("--protocol", nargs="+", default=["last", "matched", "temporal"])
    parser.add_argument("--only", nargs="+", default=[], help="words of models' names")
    parser.add_argument("--users", type=int, default=10**9, help="users to test, at random")
    parser.add_argument("--ablate", action="store_true", help="the learned measure's ingredients")
    options = parser.parse_args()
    rows = pl.read_parquet(options.file)
    names = [n for n in MODELS if not options.only or any(word in n for word in options.only)]
    for label in options.protocol:
        protocol = Protocol.of(rows, label, options.users)
        if options.ablate:
            print(f"\n{label}: change of NDCG@10 / 90% rank")
            for line in ablation(protocol):
                print(line, flush=True)
            continue
        unknown = sum(case.target < 0 for case in protocol.cases)
        print(
            f"\n{label}: {protocol.fitted}, {len(protocol.cases):,} users, {unknown} of whose "
            f"targets were not fitted\n{'':30} HR@10  NDCG@10       90% rank  fit, one user"
        )
        for line in lines(protocol, names, label):
            print(line, flush=True)
        if label in PUBLISHED:
            print(f"published, on MovieLens 1M: {PUBLISHED[label]}")


if __name__ == "__main__":
    main()
