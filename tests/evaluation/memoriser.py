"""A planted leak."""

from surerec.measures import MeasureScorer, Scorer


class Memoriser(Scorer):
    """Does not say that it leaves nobody out, and knows which rare items its users consumed."""

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
