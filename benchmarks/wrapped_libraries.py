"""Whether guarantees of wrapped models of other libraries hold, in an environment of each library.

``python -m benchmarks.wrapped_libraries ml-100k recbole:SASRec [--splits 20] [--epochs 2]`` fits a
model once, on the first 60% of the histories of half of the users. For users of the fit, and for
the others as new users if the model scores histories, random halves calibrate and are tested.
Models: ``rectools:SASRecModel``, ``recbole:BPR`` (any of its models), ``cornac:BPR``,
``implicit:ALS``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import surerec as sr
from benchmarks.sets import coverage_over_splits
from surerec.adapters import Adapter, ItemItem, adapt, of_fitted, on_catalogue
from surerec.calibration import observe, profile_cases


def _fitted(named: str, past: sr.Interactions, epochs: int) -> Adapter:
    """Return the adapter of a model that is fitted on the past."""
    library, name = named.split(":")
    if library == "recbole":
        return adapt(_of_recbole(name, past, epochs))
    if library == "rectools":
        from rectools import models  # noqa: PLC0415

        sizes = {"n_blocks": 2, "n_factors": 64, "n_heads": 2, "session_max_len": 50}
        model = getattr(models, name)(**sizes, epochs=epochs)
    elif library == "cornac":
        from cornac import models  # noqa: PLC0415

        model = getattr(models, name)(seed=0)
    else:
        from implicit.als import AlternatingLeastSquares  # noqa: PLC0415

        model = AlternatingLeastSquares(64, random_state=0)
    return adapt(model).fitted_on(on_catalogue(past, past).interactions)


def _of_recbole(name: str, past: sr.Interactions, epochs: int) -> tuple[Any, Any]:
    from recbole.config import Config  # noqa: PLC0415
    from recbole.data import create_dataset, data_preparation  # noqa: PLC0415
    from recbole.utils import get_model, get_trainer, init_seed  # noqa: PLC0415

    folder, sys.argv = Path(tempfile.mkdtemp()) / "past", sys.argv[:1]  # which RecBole reads
    folder.mkdir()
    seconds = pl.col("datetime").dt.epoch("s").alias("timestamp:float")
    rows = past.to_frame().select(pl.col("user_id", "item_id").name.suffix(":token"), seconds)
    rows.write_csv(folder / "past.inter", separator="\t")
    options = {"data_path": str(folder.parent), "epochs": epochs, "show_progress": False}
    options |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "state": "ERROR"}
    options["eval_args"] = {"split": {"LS": "valid_only"}, "order": "TO", "mode": "full"}
    options |= {"MAX_ITEM_LIST_LENGTH": 20, "use_gpu": False}
    if name in ("SASRec", "GRU4Rec"):
        options["train_neg_sample_args"] = None
    config = Config(model=name, dataset="past", config_dict=options)
    init_seed(0, reproducibility=True)
    dataset = create_dataset(config)
    train, valid, _ = data_preparation(config, dataset)
    model = get_model(name)(config, train.dataset)
    get_trainer(config["MODEL_TYPE"], name)(config, model).fit(train, valid, saved=False)
    return model, dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("model")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    given = parser.parse_args()
    films = sr.load_dataset(given.data)
    cases = profile_cases(films, 0.4)
    known = films.keeping(~cases.future_rows())
    in_fit = np.random.default_rng(0).permutation(films.n_users) % 2 == 0
    fitted = known.without_users(np.flatnonzero(~in_fit))
    model = _fitted(given.model, fitted, given.epochs)
    statistics = on_catalogue(known, fitted, model.catalogue)
    columns = model.catalogue.codes(statistics.interactions.items.ids)
    counts = np.empty(len(columns))
    counts[columns] = statistics.support
    popular = adapt(ItemItem.constant(counts), model.catalogue.ids)
    print(f"{films!r}: {given.model}, {given.splits} splits")
    print(
        "| users | nominal recall | observed | items | popularity's items |\n|---|---|---|---|---|"
    )
    for whom, chosen in (("of the fit", in_fit), ("new", ~in_fit)):
        if whom == "new" and not model.folds_in:
            continue
        rows = []
        for each in (model, popular):
            scorer = of_fitted(
                each, statistics.interactions, in_fit, by_user=whom != "new", knows_all=True
            )
            outcomes = observe(scorer, statistics, cases[chosen[cases.users]])
            rows.append(coverage_over_splits(outcomes, "rank", n_splits=given.splits).to_dicts())
        for ours, theirs in zip(*rows, strict=True):
            sizes = " | ".join(f"{row['size'] or np.nan:.0f}" for row in (ours, theirs))
            print(f"| {whom} | {1 - ours['epsilon']:.2f} | {1 - ours['loss']:.3f} | {sizes} |")


if __name__ == "__main__":
    main()
