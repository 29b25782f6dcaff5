"""The report on a run: what came out, beside the paper, in words, tables and figures."""

from __future__ import annotations

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from surerec._files import file_aside
from surerec.datasets import CATALOGUE
from surerec.evaluation import write_table
from surerec.experiments._claims import all_claims, at_levels, listed
from surerec.experiments._settings import versions
from surerec.experiments._study import (
    ALGORITHMS,
    EXTRA,
    LEVELS,
    PAPER_NAMES,
    RANKED,
    SPLITS,
    average_ranks_table,
    comparison_table,
    exponent,
    file_names,
    friedman_table,
    load_texts,
    paper_average_ranks,
    paper_tables,
    ranks_table,
    titles_of,
)
from surerec.reports import (
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Strong,
    Table,
    Verdicts,
    require_plots,
    to_html,
    to_markdown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from surerec.experiments._settings import Results, StudySettings
    from surerec.reports import Block

_TITLE = "The Inductive Conformal Recommender System, reproduced"
_NONE = "–"
_TEXTS: dict[str, dict[str, str]] = load_texts("report.json")


def write_report(results: Results, settings: StudySettings, output: Path) -> None:
    """Write the figures, the report, and the tables that belong to it.

    Parameters
    ----------
    results : Results
        The tables of a run.
    settings : StudySettings
        What was run.
    output : Path
        The folder of the run. It gets ``figures/`` (PNG, SVG, PDF), ``report.html``, which needs
        no other file, ``report.md``, and ``ranks``, ``friedman`` (for two data sets or more) and
        ``comparison`` as CSV and Parquet.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    require_plots()
    from surerec.experiments._figures import draw_figures  # noqa: PLC0415  # an extra

    (output / "figures").mkdir(parents=True, exist_ok=True)
    ranks = ranks_table(results.metrics)
    own = {"ranks": ranks, "friedman": friedman_table(ranks), "comparison": comparison_table(ranks)}
    for name, table in own.items():
        if table is not None:
            write_table(table, output / f"{name}.csv")
            write_table(table, output / f"{name}.parquet")
    pictures = {}
    for name, formats in draw_figures(results, ranks, settings.k):
        for ending, content in formats.items():
            _write(output / "figures" / f"{name}.{ending}", content)
        pictures[name] = formats["svg"]
    blocks = report_blocks(results, ranks, settings)
    _write(output / "report.md", to_markdown(_TITLE, blocks).encode())
    _write(output / "report.html", to_html(_TITLE, blocks, pictures).encode())


def _write(path: Path, content: bytes) -> None:
    with file_aside(path) as aside:
        aside.write_bytes(content)


def report_blocks(results: Results, ranks: pl.DataFrame, settings: StudySettings) -> list[Block]:
    """Return what the report holds, section by section."""
    titles = titles_of(results.datasets)
    blocks = [
        *_introduction(results, ranks, titles),
        Heading("The truth about validity"),
        Paragraph(_TEXTS["words"]["truth"]),
        *_pictures("truth", titles),
        Heading("Data"),
        _data(results.datasets),
        *_results(ranks, titles),
        *_comparison(comparison_table(ranks), titles),
        *_statistics(ranks),
        *_extra(results, titles),
        *_top_k(results.metrics, titles, settings.k),
        *_levels("validity", results.validity, titles, _error),
        *_levels("efficiency", results.validity, titles, _let_in),
        *([] if results.times is None else _times(results.times, titles)),
        *([] if results.growth is None else _growth(results.growth)),
        *([] if results.tuning is None else _tuning(results.tuning, titles)),
    ]
    optional = ("times", "growth", "tuning", "extra", "extra_validity")
    absent = {name for name in optional if getattr(results, name) is None}
    if friedman_table(ranks) is None:
        absent.add("friedman")
    files = {name: words for name, words in _TEXTS["files"].items() if name not in absent}
    return [
        *blocks,
        Heading("How it was made"),
        _settings(settings),
        Paragraph("Every number is in these files, as CSV and Parquet:"),
        Bullets(tuple(f"{name}: {words}" for name, words in files.items())),
    ]


def _introduction(
    results: Results, ranks: pl.DataFrame, titles: Mapping[str, str]
) -> Iterable[Block]:
    users = sorted(set(results.metrics.filter(pl.col("metric") == "ap")["n_users"]))
    reach = " to ".join(map(str, dict.fromkeys((users[0], users[-1]))))
    yield Paragraph(
        f"The paper's empirical study on {listed(list(titles.values()))}, with {reach} users each: "
        "30% of a profile for training, 30% for calibration, the rest as test, in time order; for "
        "validity and efficiency also with calibration and test drawn at random. What follows is "
        "written from the numbers of this run."
    )
    yield Heading("The paper's claims")
    yield Verdicts(tuple(all_claims(results, ranks)))


def _pictures(kind: str, titles: Mapping[str, str]) -> list[Block]:
    """Return a kind of figure for each data set."""
    return [
        Picture(f"{kind}-{file}", _TEXTS["captions"][kind].format(titles[dataset]))
        for dataset, file in file_names(titles).items()
    ]


def _rows(
    table: pl.DataFrame,
    key: str,
    keys: Iterable[Any],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each algorithm, with the cells of each value of the key."""
    wanted, rows = list(keys), []
    for (algorithm,), some in table.group_by("algorithm", maintain_order=True):
        found = {row[key]: row for row in some.to_dicts()}
        width = len(cells(next(iter(found.values()))))
        made = [cells(found[each]) if each in found else (_NONE,) * width for each in wanted]
        rows.append((str(algorithm), *(cell for some_cells in made for cell in some_cells)))
    return tuple(rows)


def _mean(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def _data(datasets: pl.DataFrame) -> Table:
    """Return the paper's Table 1 beside the data at hand."""
    at_hand = {row["dataset"]: row for row in datasets.to_dicts()}
    kinds = ("users", "items", "rows")
    rows = []
    for name in [*at_hand, *(name for name in PAPER_NAMES if name not in at_hand)]:
        here, entry = at_hand.get(name, {}), CATALOGUE.get(name)
        paper = entry.paper if entry else None
        counts = [getattr(paper, kind, None) for kind in kinds] + [here.get(kind) for kind in kinds]
        title = here.get("title") or PAPER_NAMES.get(name, name)
        source = (here.get("origin") or _NONE) if here else "not run"
        cells = (_NONE if count is None else f"{count:,}" for count in counts)
        rows.append((title, *cells, source))
    in_paper = ("users, paper", "items, paper", "records, paper")
    header = ("data set", *in_paper, *kinds, "source")
    caption = "The paper's Table 1 beside the data at hand"
    return Table(caption, header, tuple(rows), frozenset({0, len(header) - 1}))


def _results(ranks: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Return AP, AUC, NDCG and RR with ranks, the best in bold."""
    yield Heading("Results")
    yield Paragraph(_TEXTS["words"]["results"])
    place = {name: number for number, name in enumerate((*ALGORITHMS, EXTRA))}
    ordered = ranks.sort(pl.col("algorithm").replace_strict(place), maintain_order=True)
    header = ("algorithm", *(word for title in titles.values() for word in (title, "rank")))
    best = pl.col("rank").min().over("metric", "dataset")
    marked = ordered.with_columns(best=pl.col("rank") == best)
    for metric in RANKED:
        chosen = marked.filter(pl.col("metric") == metric)
        yield Table(metric.upper(), header, _rows(chosen, "dataset", titles, _result))


def _result(row: dict[str, Any]) -> tuple[str, str]:
    if row["mean"] is None:
        return _NONE, _NONE
    rank = _NONE if row["rank"] is None else f"{row['rank']:g}"
    cells = _mean(row["mean"], row["standard_error"]), rank
    return (Strong(cells[0]), Strong(cells[1])) if row["best"] else cells


def _comparison(comparison: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Return ours beside the paper's: the difference where it has the data set, else its range."""
    yield Heading("Beside the paper's table")
    yield Paragraph(_TEXTS["words"]["comparison"])
    for dataset, title in titles.items():
        table = comparison.filter(pl.col("dataset") == dataset)
        if table["paper"].is_not_null().any():
            columns, cells = ["paper", "difference"], _beside
            caption = f"{title}: ours and the paper's"
        else:
            ours, low, high = table["ours"].round(2), table["paper_lowest"], table["paper_highest"]
            inside = f"{((ours >= low) & (ours <= high)).sum()} of {table.height} means"
            caption = f"{title} (not in the paper): {inside} are within the paper's range"
            columns, cells = ["paper"], _in_range
        header = ("algorithm", *(word for m in RANKED for word in (m.upper(), *columns)))
        if len(table):
            yield Table(caption, header, _rows(table, "metric", RANKED, cells))


def _beside(row: dict[str, Any]) -> tuple[str, ...]:
    difference = f"{row['difference']:+z.2f}".replace("-", "−")
    return f"{row['ours']:.3f}", f"{row['paper']:.2f}", difference


def _in_range(row: dict[str, Any]) -> tuple[str, ...]:
    return f"{row['ours']:.3f}", f"{row['paper_lowest']:.2f}–{row['paper_highest']:.2f}"


def _statistics(ranks: pl.DataFrame) -> Iterable[Block]:
    """Return Friedman's test, Nemenyi's difference and the average ranks, ours and the paper's."""
    found, paper = friedman_table(ranks), paper_tables()["friedman"]
    tests = {} if found is None else {row["metric"]: row for row in found.to_dicts()}
    yield Heading("Tests over data sets")
    yield Paragraph(_words_on(tests[RANKED[0]]) if tests else _TEXTS["words"]["one data set"])
    rows = []
    for metric in RANKED:
        cells = [_NONE] * 4
        if test := tests.get(metric):
            f_f = "∞" if isinf(test["f_f"]) else f"{test['f_f']:.4f}"
            answer = "yes" if test["rejects"] else "no"
            cells = [f_f, f"{test['critical_value']:.4f}", answer, f"{test['cd']:.4f}"]
        theirs = paper["F_F"][metric.upper()], paper["critical_value_0.05"]
        numbers = (f"{number:.4f}" for number in (*theirs, paper["critical_difference"]))
        rows.append((metric.upper(), *cells, *numbers))
    tested = ("metric", "F_F", "critical value", "they differ", "CD", "F_F, paper",
              "critical value, paper", "CD, paper")  # fmt: skip
    yield Table("Friedman's test and Nemenyi's critical difference", tested, tuple(rows))
    own = average_ranks_table(ranks).rows() if tests else []
    ours = {(metric, algorithm): f"{rank:.2f}" for metric, algorithm, rank in own}
    theirs_by = {metric: paper_average_ranks(metric) for metric in RANKED}
    averages = [
        (
            algorithm,
            *(ours.get((metric, algorithm), _NONE) for metric in RANKED),
            *(f"{theirs_by[metric][algorithm]:.2f}" for metric in RANKED),
        )
        for algorithm in ALGORITHMS
    ]
    names = [metric.upper() for metric in RANKED]
    header = ("algorithm", *names, *(f"{name}, paper" for name in names))
    yield Table("Average ranks", header, tuple(averages), folded=True)
    for metric in RANKED:
        yield Picture(f"cd-{metric}", _TEXTS["captions"]["cd"].format(metric.upper()))


def _words_on(test: dict[str, Any]) -> str:
    words = (
        f"At the level 0.05, over {test['datasets']} data sets and {test['algorithms']} "
        f"algorithms; for Nemenyi's test q = {test['q']:.4f} and two algorithms differ from an "
        f"average rank of CD = {test['cd']:.4f} apart."
    )
    if test["cd"] > test["algorithms"] - 1:
        words += (
            f" No two average ranks can be more than {test['algorithms'] - 1} apart, so with so "
            "few data sets Nemenyi's test cannot tell any two algorithms apart."
        )
    return words


def _extra(results: Results, titles: Mapping[str, str]) -> Iterable[Block]:
    """Return measures outside the paper beside its best, if any were asked for."""
    if results.extra is None or results.extra_validity is None:
        return
    yield Heading("Outside the paper")
    yield Paragraph(_TEXTS["words"]["extra"])
    beside = pl.col("algorithm") == "ICRS12"
    metrics = pl.concat([results.metrics.filter(beside), results.extra])
    validity = at_levels(pl.concat([results.validity.filter(beside), results.extra_validity]))
    missed = tuple(f"missed at ε = {level:g}" for level in LEVELS)
    header = ("algorithm", *(metric.upper() for metric in RANKED), *missed)
    for dataset, title in titles.items():
        chosen = (pl.col("dataset") == dataset) & (pl.col("split") == "time")
        means = _rows(metrics.filter(chosen), "metric", RANKED, _number("mean"))
        levels = validity.filter(chosen)["epsilon"].unique().sort()
        errors = _rows(validity.filter(chosen), "epsilon", levels, _number("validity_error"))
        rows = tuple((*mean, *error[1:]) for mean, error in zip(means, errors, strict=True))
        yield Table(f"{title}: measures outside the paper", header, rows)


def _number(name: str) -> Callable[[dict[str, Any]], tuple[str, ...]]:
    return lambda row: (_NONE if row[name] is None else f"{row[name]:.3f}",)


def _top_k(metrics: pl.DataFrame, titles: Mapping[str, str], k: int) -> Iterable[Block]:
    """Return precision, recall and F1 at k, and precision and recall over k."""
    yield Heading("Precision, recall and F1")
    caption = f"Precision, recall and F1 at {k} in time order, with one standard error."
    yield Picture("top-k", caption)
    mean = pl.col("mean").round(12)
    marked = metrics.with_columns(best=mean == mean.max().over("metric", "dataset", "split"))
    for metric, label in {"precision": "Precision", "recall": "Recall", "f1": "F1"}.items():
        found = marked.filter(pl.col("split") == "time", pl.col("metric") == metric)
        rows = _rows(found, "dataset", titles, _best)
        yield Table(f"{label}@{k}", ("algorithm", *titles.values()), rows, folded=True)
    yield from _pictures("curves", titles)


def _best(row: dict[str, Any]) -> tuple[str, ...]:
    text = _mean(row["mean"], row["standard_error"] or 0.0)
    return (Strong(text) if row["best"] else text,)


def _levels(
    kind: str,
    validity: pl.DataFrame,
    titles: Mapping[str, str],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
) -> Iterable[Block]:
    """Return a figure for each data set, and a table of the levels for each split."""
    yield Heading(kind.capitalize())
    yield Paragraph(_TEXTS["words"][kind])
    header = ("algorithm", *(f"ε = {level:g}" for level in LEVELS))
    for picture, (dataset, title) in zip(_pictures(kind, titles), titles.items(), strict=True):
        yield picture
        for split, words in SPLITS.items():
            chosen = (pl.col("dataset") == dataset) & (pl.col("split") == split)
            table = at_levels(validity.filter(chosen))
            rows = _rows(table, "epsilon", table["epsilon"].unique().sort(), cells)
            what = _TEXTS["cells"][kind]
            yield Table(f"{title}, {words}: {what}", header, rows, folded=True)


def _error(row: dict[str, Any]) -> tuple[str, ...]:
    found, error = row["validity_error"], row["standard_error"] or 0.0
    text = _mean(found, error)
    return (Strong(text) if found - row["epsilon"] > 2 * error else text,)


def _let_in(row: dict[str, Any]) -> tuple[str, ...]:
    return (f"{row['efficiency_error']:.3f} ({row['set_size']:,.0f})",)


def _times(times: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Return the time of one recommendation by each algorithm."""
    yield Heading("Execution time")
    yield Paragraph(_TEXTS["words"]["times"])
    yield Picture("times", "Execution time of each algorithm, on a logarithmic scale.")
    rows = _rows(times, "dataset", titles, _time)
    header = ("algorithm", *titles.values())
    yield Table("Milliseconds per recommendation", header, rows, folded=True)


def _time(row: dict[str, Any]) -> tuple[str, ...]:
    return (f"{row['median_ms']:.3f} ({row['p90_ms']:.3f})",)


def _growth(growth: pl.DataFrame) -> Iterable[Block]:
    """Return the measured growth of time beside the paper's complexity."""
    yield Heading("Growth of execution time")
    yield Paragraph(_TEXTS["words"]["growth"])
    complexity = _TEXTS["complexity"]
    yield Picture("growth", "Time against training items, calibration items and candidates.")
    rows = tuple(
        (algorithm, complexity.get(algorithm, complexity["ICRS"]), *cells)
        for algorithm, *cells in _rows(growth, "variable", ("m", "l", "n_c"), _exponent)
    )
    header = ("algorithm", "complexity in the paper", "exponent in m", "in l", "in n_c")
    yield Table("Measured exponents", header, rows, frozenset({0, 1}))


def _exponent(row: dict[str, Any]) -> tuple[str, ...]:
    return (exponent(row["slope"]) or _NONE,)


def _tuning(tuning: pl.DataFrame, titles: Mapping[str, str]) -> Iterable[Block]:
    """Return AP over I, and AP and AUC over the split shares."""
    yield Heading("Tuning")
    yield Paragraph(_TEXTS["words"]["tuning"])
    top = pl.col("top").cast(pl.String).fill_null("all").alias("I")
    percent = (pl.col("training", "calibration") * 100).round(0).cast(pl.Int64).cast(pl.String)
    files = file_names(titles)
    for dataset, title in titles.items():
        found = tuning.filter(pl.col("dataset") == dataset).select(
            "sweep",
            "algorithm",
            top,
            percent.str.replace("$", "%"),
            _with_error("ap"),
            _with_error("auc"),
        )
        if len(found):
            for sweep, caption, columns in (
                ("top", "number of factors I", ("I",)),
                ("shares", "split shares", ("training", "calibration")),
            ):
                words = _TEXTS["captions"][f"tuning-{sweep}"].format(title)
                yield Picture(f"tuning-{sweep}-{files[dataset]}", words)
                chosen = found.filter(pl.col("sweep") == sweep)
                shown = chosen.select("algorithm", *columns, "AP", "AUC")
                rows = tuple(shown.rows())
                yield Table(f"{title}: {caption}", tuple(shown.columns), rows, folded=True)


def _with_error(metric: str) -> pl.Expr:
    both = pl.struct(pl.col(metric).alias("mean"), pl.col(f"{metric}_error").alias("error"))
    cell = both.map_elements(lambda row: _mean(row["mean"], row["error"]), pl.String)
    return cell.alias(metric.upper())


def _settings(settings: StudySettings) -> Table:
    """Return how the numbers came about."""
    sources = [
        source.name if source.path is None else f"{source.name} from {Path(source.path).name}"
        for source in settings.datasets
    ]
    rows = {
        "data sets": ", ".join(sources),
        "users evaluated in each": str(settings.n_users),
        "seed": str(settings.seed),
        "k of precision, recall and F1": str(settings.k),
        "users timed": str(settings.timed_users),
        "users in tuning": str(settings.tuning_users),
        "measures outside the paper": ", ".join(settings.extra),
        **versions(),
    }
    known = tuple((name, value) for name, value in rows.items() if value)
    return Table("Settings and versions", ("setting", "value"), known, frozenset({0, 1}))
