"""The lines of the result table: our value, the peer's, their ratio, and the target."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.contestant import LEFT_OUT
from benchmarks.plan import ANSWER_DATA, FIT_PEERS, LARGE_DATA, MEASURES, people_data
from surerec._words import in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.contestant import Limits, Outcome
    from benchmarks.plan import Scale

_PEER_NAMES = {"implicit": "implicit K=100", "scipy": "scipy A.T @ A"}
_ONE_DIRECTION = {"scipy": 12.0, "implicit": 5.0, "duckdb": 80.0}
_BOTH_DIRECTIONS = {"scipy": 6.0, "implicit": 3.0, "duckdb": 40.0}
_CEILING = {"2m": 0.55, "10m": 0.40}
_SECOND_CORE = 1.6
_WHOLE = {"2m": 0.65, "10m": 0.65, "100m": 0.60}
_WHOLE_SECOND_CORE, _WHOLE_MEMORY = 1.8, 1.5
_ONE_USER = {  # p50 and p99
    "CM4": (1.0, 1.0), "CM12": (2.0, 4.0), "CM3": (2.0, 4.0),
}  # fmt: skip
_ONE_SET = {"CM4": (1.5, 4.0), "CM12": (3.0, 4.0), "CM3": (3.0, 4.0)}
_MANY_USERS = {"CM4": 1.0, "CM12": 2.0}
_OVER_USERS = 1.25  # scores whole histories; item-level p-values score halves
_P_VALUES = {"crepes": 100.0, "numpy": 2.0}
_LARGE_PEAK, _LARGE_SECONDS = 6e9, 60.0
_LARGE_ONE = {"p50": 20.0, "p99": 200.0}
_SLOPE = 1.1


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    group: str
    what: str
    ours: str
    peer: str
    ratio: float | None
    ratio_text: str
    bar: str
    met: bool | None
    """None without a target or a result; see `verdict`."""
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


def _line(
    group: str,
    what: str,
    ours: str,
    peer: str = "",
    *,
    ratio: float | None = None,
    ratio_text: str | None = None,
    bar: str = "",
    met: bool | None = None,
) -> Line:
    text = ratio_text if ratio_text is not None else "" if ratio is None else f"{ratio:.3g}×"
    nothing = "not measured" if ratio is None and bar else "reported"
    verdict = nothing if met is None else "met" if met else "NOT MET"
    return Line(group, what, ours, peer, ratio, text, bar, met, verdict)


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _cost(outcome: Outcome) -> str:
    if not outcome.done:
        return f"{outcome.status} ({in_bytes(outcome.peak_bytes)})"
    peak = outcome.figures.get("peak", outcome.peak_bytes)
    return f"{_time(outcome.figures['seconds'])}, {in_bytes(peak)}"


def _fails(outcome: Outcome) -> bool | None:
    """Return the verdict on a run without figures: not met, unless it was left out."""
    return None if outcome.status == LEFT_OUT else False


class Judge:
    """Converts outcomes by key to lines and checks."""

    def __init__(self, scale: Scale, outcomes: Mapping[str, Outcome], limits: Limits) -> None:
        self.scale = scale
        self.outcomes = outcomes
        self.limits = limits

    def lines(self) -> list[Line]:
        """Return all lines."""
        found = [
            *self._counting("one-direction", "Counting one direction", _ONE_DIRECTION),
            *self._counting("both-directions", "Ready for every measure", _BOTH_DIRECTIONS),
            *self._kernel(),
            *self._whole(),
            *self._one_user(),
            *self._many_users(),
            *self._p_values(),
            *self._metrics(),
        ]
        if self.scale.curve:
            found += [*self._large_fit(), *self._large_one(), self._slope_line()]
        return found

    def size(self, name: str) -> str:
        """Describe the size of some data."""
        figures = self.outcomes[f"input/{name}"].figures
        if not figures:
            return name
        rows = figures["n_rows"]
        target = f"{rows / 1e6:.3g}M" if rows >= 1e6 else f"{rows:,}"
        return f"{target} rows × {figures['n_items']:,} items"

    def _faster(self, group: str, what: str, keys: tuple[str, str], bar: float | None) -> Line:
        """Compare seconds; a peer that did not finish counts as its limit."""
        ours, peer = self.outcomes[keys[0]], self.outcomes[keys[1]]
        target = "" if bar is None else f"≥ {bar:g}×"
        if not ours.done:
            met = None if bar is None else _fails(ours)
            return _line(group, what, _cost(ours), _cost(peer), bar=target, met=met)
        ratio, text, met = None, None, None
        if peer.done:
            ratio = peer.figures["seconds"] / ours.figures["seconds"]
            met = None if bar is None else ratio >= bar
        elif peer.status == "DNF: time":
            ratio = self.limits.seconds / ours.figures["seconds"]
            text = f"> {ratio:.3g}×"
            met = True if bar is not None and ratio >= bar else None
        elif peer.status == "DNF: memory":
            text, met = "peer did not finish", None if bar is None else True
        return _line(
            group, what, _cost(ours), _cost(peer), ratio=ratio, ratio_text=text, bar=target, met=met
        )

    def _counting(self, kind: str, title: str, bars: dict[str, float]) -> list[Line]:
        return [
            self._faster(
                f"{title}, {self.size(name)}",
                f"against {_PEER_NAMES.get(peer, peer)}",
                (f"fit/{name}/{kind}", f"fit/{name}/{peer}"),
                bars.get(peer) if name == "10m" else None,
            )
            for name in self.scale.fit_data
            for peer in FIT_PEERS
        ]

    def _kernel(self) -> list[Line]:
        found, group = [], "Counting kernel"
        for name, bar in _CEILING.items():
            what, target = f"one core, share of the ceiling, {self.size(name)}", f"≥ {bar:.0%}"
            outcome = self.outcomes[f"ceiling/{name}"]
            if not outcome.done:
                found.append(_line(group, what, outcome.status, bar=target))
                continue
            share, rate = outcome.figures["share"], outcome.figures["pairs_per_second"]
            found.append(
                _line(
                    group,
                    what,
                    f"{rate / 1e6:,.0f} M pairs/s",
                    f"{outcome.figures['ceiling'] / 1e6:,.0f} M/s",
                    ratio=share,
                    ratio_text=f"{share:.0%}",
                    bar=target,
                    met=share >= bar,
                )
            )
        what, target = f"second core, {self.size('10m')}", f"≥ {_SECOND_CORE:g}×"
        outcome = self.outcomes["fit/10m/one-direction"]
        if not outcome.done:
            return [*found, _line(group, what, outcome.status, bar=target)]
        one, two = outcome.figures["one_thread_seconds"], outcome.figures["seconds"]
        return [
            *found,
            _line(
                group, what, _time(two), f"{_time(one)} on one",
                ratio=one / two, bar=target, met=one / two >= _SECOND_CORE,
            ),
        ]  # fmt: skip

    def _whole(self) -> list[Line]:
        found = []
        for name in self.scale.whole:
            group = f"Whole fit, both directions, {self.size(name)}"
            what, target = "share of the ceiling of two cores", f"≥ {_WHOLE[name]:.0%}"
            outcome = self.outcomes[f"whole/{name}"]
            if not outcome.done:
                met = _fails(outcome)
                found.append(_line(group, what, outcome.status, bar=target, met=met))
                continue
            figures = outcome.figures
            share = figures["share"]
            found.append(
                _line(
                    group, what, _cost(outcome), f"{figures['ceiling'] / 1e6:,.0f} M/s",
                    ratio=share, ratio_text=f"{share:.0%}", bar=target, met=share >= _WHOLE[name],
                )
            )  # fmt: skip
        group = f"Whole fit, both directions, {self.size(self.scale.whole[-1])}"
        outcome = self.outcomes[f"whole/{self.scale.whole[-1]}"]
        seconds = tuple(outcome.figures.get(k) for k in ("one_thread_seconds", "seconds"))
        memory = tuple(outcome.figures.get(k) for k in ("peak", "result_bytes"))
        for what, (one, other), bar, most in (
            ("second core", seconds, _WHOLE_SECOND_CORE, False),
            ("peak memory over the result", memory, _WHOLE_MEMORY, True),
        ):
            target = f"{'≤' if most else '≥'} {bar:g}×"
            if one is None or other is None:
                found.append(_line(group, what, outcome.status, bar=target, met=_fails(outcome)))
                continue
            ratio, cells = one / other, (in_bytes(one), in_bytes(other)) if most else (
                _time(other), f"{_time(one)} on one"
            )  # fmt: skip
            met = ratio <= bar if most else ratio >= bar
            found.append(_line(group, what, *cells, ratio=ratio, bar=target, met=met))
        return found

    def _at_most(
        self,
        group: str,
        what: str,
        values: tuple[float | None, float | None],
        unit: str,
        bar: float | None,
    ) -> Line:
        """Compare costs with a factor of the peer's as target."""
        ours, peer = values
        target = "" if bar is None else "not slower" if bar == 1 else f"≤ {bar:.3g}×"
        cells = ["not measured" if v is None else f"{v:.3g} {unit}" for v in values]
        if ours is None or peer is None:
            return _line(group, what, cells[0], cells[1], bar=target)
        ratio = ours / peer
        return _line(
            group, what, cells[0], cells[1],
            ratio=ratio, bar=target, met=None if bar is None else ratio <= bar,
        )  # fmt: skip

    def _figure(self, key: str, name: str) -> float | None:
        value: float | None = self.outcomes[key].figures.get(name)
        return value

    def _one_user(self) -> list[Line]:
        group = f"One user, p-values of all items, {self.size(ANSWER_DATA)}"
        found = []
        figures_of: tuple[tuple[str, str, dict[str, tuple[float, float]]], ...] = (
            ("", "", _ONE_USER),
            ("set_", ", recommend() at 0.9", _ONE_SET),
            ("frame_", ", recommend() at 0.9 and its frame", {}),
        )
        for figure, words, bars in figures_of:
            for name in MEASURES:
                for at, bar in zip(("p50", "p99"), bars.get(name, (None, None)), strict=True):
                    pair = (
                        self._figure(f"one/{name}", f"{figure}{at}_ms"),
                        self._figure("one/implicit", f"{at}_ms"),
                    )
                    what = f"{name} {at}{words}, against implicit K=100"
                    found.append(self._at_most(group, what, pair, "ms", bar))
        for name in MEASURES:
            pair = (
                self._figure("one/CRS-max", "p50_ms"),
                self._figure(f"one/{name}", "p50_ms"),
            )
            what = f"CRS-max p50 as a multiple of ICRS with {name}"
            found.append(self._at_most(group, what, pair, "ms", None))
        return found

    def _many_users(self) -> list[Line]:
        group = f"Batch, {self.size(ANSWER_DATA)}"
        found = []
        for name in ("CM4", "CM12"):
            for peer, target in (
                ("implicit", "implicit K=100"),
                ("implicit-als", "implicit ALS 64"),
            ):
                bar = _MANY_USERS[name] if peer == "implicit" else None
                what = f"{name}, time per user against {target}"
                found.append(self._per_user(group, what, (f"many/{name}", f"many/{peer}"), bar))
        for jobs, words in (
            ("many", group),
            ("many-20", f"Batch of 20, {self.size(self.real_data)}"),
        ):
            what = "CM12 over users, time per user against p-values"
            keys = f"{jobs}/population-CM12", f"{jobs}/CM12"
            found.append(self._per_user(words, what, keys, _OVER_USERS))
        return found

    def _per_user(self, group: str, what: str, keys: tuple[str, str], bar: float | None) -> Line:
        """Compare the times per user of two batches."""
        rates = (self._figure(key, "users_per_second") for key in keys)
        ours, peer = (None if rate is None else 1e6 / rate for rate in rates)
        return self._at_most(group, what, (ours, peer), "µs", bar)

    @property
    def real_data(self) -> str:
        """Name of the real data, or of synthetic data in a smoke run."""
        return people_data(self.scale)

    def _p_values(self) -> list[Line]:
        found = []
        for size in self.scale.calibration:
            for kind in ("smoothed", "plain"):
                for peer, bar in _P_VALUES.items():
                    ours, theirs = (
                        self._figure(f"p-values/{size}/{who}", f"{kind}_per_second")
                        for who in ("surerec", peer)
                    )
                    what = f"{kind}, {size:,} calibration scores, against {peer}"
                    cells = ["not measured" if v is None else f"{v / 1e6:.3g} M/s"
                             for v in (ours, theirs)]  # fmt: skip
                    ratio = None if ours is None or theirs is None else ours / theirs
                    met = None if ratio is None else ratio >= bar
                    found.append(
                        _line("p-values", what, *cells, ratio=ratio, bar=f"≥ {bar:g}×", met=met)
                    )
        return found

    def _metrics(self) -> list[Line]:
        users, items = self.scale.rankings
        group = f"Ranking metrics, {users:,} users × {items:,} items"
        return [
            self._faster(group, f"against {peer}", ("metrics/surerec", f"metrics/{peer}"), None)
            for peer in ("ir-measures", "numpy")
        ]

    def _large_fit(self) -> list[Line]:
        group, found = f"From Parquet to a recommendation, {self.size(LARGE_DATA)}", []
        for name in ("budget", "default"):
            judged = name == "budget"
            budget = in_bytes(self.scale.budget) if judged else "the default"
            outcome = self.outcomes[f"first/{name}"]
            for what, key, most, target in (
                ("peak memory", "peak", _LARGE_PEAK, in_bytes(_LARGE_PEAK)),
                ("first recommendation after", "seconds", _LARGE_SECONDS, _time(_LARGE_SECONDS)),
            ):
                value = outcome.figures.get(key)
                cell = outcome.status if value is None else (
                    in_bytes(value) if key == "peak" else _time(value)
                )  # fmt: skip
                met = (_fails(outcome) if value is None else value <= most) if judged else None
                bar = f"≤ {target}" if judged else ""
                what_in = f"{what}, budget {budget}"
                share = None if value is None else value / most
                found.append(
                    _line(group, what_in, cell, ratio=share, ratio_text="", bar=bar, met=met)
                )
        return found

    def _large_one(self) -> list[Line]:
        group, found = f"One user, warm, budget {in_bytes(self.scale.budget)}", []
        theirs = self.outcomes["large-one/implicit"]
        for name in ("CM3", "CM12"):
            ours = self.outcomes[f"large-one/{name}"]
            for at, most in _LARGE_ONE.items():
                cells = [o.status if not o.done else f"{o.figures[f'{at}_ms']:.3g} ms" + (
                    f", {o.figures['profile_at_p99']:,} items" if at == "p99" else ""
                ) for o in (ours, theirs)]  # fmt: skip
                value, peer = ours.figures.get(f"{at}_ms"), theirs.figures.get(f"{at}_ms")
                found.append(
                    _line(
                        group,
                        f"{name} {at}, {self.size(LARGE_DATA)}, beside implicit K=100",
                        *cells,
                        ratio=value / peer if value and peer else None,
                        bar=f"≤ {most:g} ms",
                        met=_fails(ours) if value is None else value <= most,
                    )
                )
        return found

    def slope(self, figure: str) -> float | None:
        """Fit the logarithm of a cost on that of the number of ordered pairs."""
        points = [self.outcomes[f"curve/{name}"].figures for name in self.scale.curve]
        if not all(points):
            return None
        pairs, costs = (np.log([p[key] for p in points]) for key in ("n_pairs", figure))
        return float(np.polyfit(pairs, costs, 1)[0])

    def _slope_line(self) -> Line:
        what = (
            f"slope on ordered pairs, {len(self.scale.curve)} sizes"
            f" up to {self.size(self.scale.curve[-1])}"
        )
        fit, counting = self.slope("seconds"), self.slope("counting_seconds")
        if fit is None or counting is None:
            return _line("Fit cost", what, "not every size finished", bar=f"≤ {_SLOPE:g}")
        worst = max(fit, counting)
        ours = f"fit {fit:.2f}, counting every row {counting:.2f}"
        return _line(
            "Fit cost", what, ours,
            ratio=worst, ratio_text="", bar=f"≤ {_SLOPE:g}", met=worst <= _SLOPE,
        )  # fmt: skip
