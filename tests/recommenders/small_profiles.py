"""Small random profiles, with ties, repeats, unseen items and zero supports."""

import polars as pl
from hypothesis import strategies as st

import surerec as sr
from tests import oracle_method as paper

UNKNOWN_ITEMS = [100, 101]

a_row = st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 5))
some_rows = st.one_of(  # few, so that most counts are 0; and many, so that most are not
    st.lists(a_row, min_size=1, max_size=25), st.lists(a_row, min_size=35, max_size=80)
)


def read(rows):
    return sr.read_interactions(pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"))


def as_dict(frame, column="p_value"):
    return dict(zip(frame["item_id"].to_list(), frame[column].to_list(), strict=True))


class SmallCase:
    """A request on small data: a user, a history, or a user with another history."""

    def __init__(self, data):
        self.rows = data.draw(some_rows, label="rows")
        self.ties = data.draw(st.sampled_from(["order", "strict"]), label="ties")
        self.interactions = read(self.rows)
        self.catalogue = self.interactions.items.ids.to_list()
        users = st.sampled_from(self.interactions.users.ids.to_list())
        seen = st.sampled_from(self.catalogue)
        histories = st.lists(seen | st.sampled_from(UNKNOWN_ITEMS), max_size=5) | st.lists(
            seen, min_size=4, max_size=12
        )
        kind = data.draw(st.sampled_from(["user", "history", "both"]), label="kind")
        self.request = {}
        if kind != "history":
            self.request["user"] = data.draw(users, label="user")
        if kind == "user":
            consumed = self.interactions.profile(self.request["user"])["item_id"].to_list()
        else:
            consumed = [*data.draw(histories, label="history"), data.draw(seen, label="seen")]
            self.request["history"] = consumed
        self.history = paper.known(consumed, self.catalogue)
        self.counts = paper.count(self.rows, self.request.get("user"), self.ties)
        # Items without other consumers are unknown.
        self.candidates = [
            item for item in self.catalogue if item not in self.history and self.counts.sup[item]
        ]

    def statistics(self, strategy="auto"):
        return sr.count_precedence(self.interactions, ties=self.ties, strategy=strategy)

    def p_values(self, model):
        frame = model.fit(self.statistics()).p_values(**self.request)
        assert frame.columns[:3] == ["item_id", "p_value", "entry_confidence"]
        for p_value, entry in frame.select("p_value", "entry_confidence").iter_rows():
            assert 0 < p_value <= 1
            assert abs(entry - (1 - p_value)) < 1e-15
        return as_dict(frame)

    def expected(self, p_value):
        return {item: float(p_value(item)) for item in self.candidates}


def is_covered(model, **asked):
    """Return whether a user's whole set guarantees anything."""
    whole = model.recommend(**{name: asked[name] for name in asked if name != "k"})
    return whole.guarantee.holds


def one_by_one(model, requests, **options):
    """Return the rows of recommend_many from single requests, by user."""
    frames = [
        model.recommend(**asked, **options)
        .to_frame()
        .select(
            pl.lit(user, dtype=pl.Int64).alias("user_id"),
            pl.exclude("title"),
            pl.lit(is_covered(model, **asked, **options)).alias("covered"),
            pl.col("^title$"),
        )
        for user, asked in requests.items()
    ]
    return pl.concat(frames)
