"""The measure "learned": boosted trees trained on what other users consumed next."""

from surerec.measures.learned._features import FEATURES
from surerec.measures.learned._model import LearnedModel
from surerec.measures.learned._ridge import Ridge
from surerec.measures.learned._scorer import LearnedMeasure, LearnedScorer
from surerec.measures.learned._training import COMPONENTS

__all__ = ["COMPONENTS", "FEATURES", "LearnedMeasure", "LearnedModel", "LearnedScorer", "Ridge"]
