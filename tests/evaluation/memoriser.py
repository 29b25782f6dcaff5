"""A scorer with a leak."""

from surerec.measures import MeasureScorer, Scorer


class Memoriser(Scorer):
    """Does not declare that it leaves no user out, and knows the rare items of its users."""

    rare = 20

    def __init__(self, statistics):
        self.statistics = statistics
        self.scorer = MeasureScorer(statistics, "CM12")

    def score_query(self, query):
        scores = self.scorer.score_query(query)
        for user in query.users:
            consumed = self.statistics.consumed_by(user)[0]
            scores[consumed[self.statistics.support[consumed] <= self.rare]] += scores.max() + 1
        return scores
