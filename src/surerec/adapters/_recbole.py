"""Adapter of models of RecBole with their dataset, by their full-sort scores."""

from __future__ import annotations

import threading
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import torch
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AbstractRecommender, SequentialRecommender

from surerec.adapters._adapter import Adapter, Factors, ItemItem, ids_of, own_ids
from surerec.errors import InputError
from surerec.interactions import IdMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from surerec.adapters._adapter import Form, Ids

_OF_RATINGS: Final = frozenset({"MacridVAE", "MultiDAE", "MultiVAE", "RecVAE"})
"""Autoencoders that see a user's items only, so that they score histories."""
_FEW: Final = 3
_LOCK: Final = threading.Lock()  # graph models cache the embeddings of all users


class RecBoleAdapter(Adapter):
    """Adapter of a trained model and its dataset, ``(model, dataset)``.

    Index 0 is padding in RecBole, so that columns and rows are the indices minus 1. The network is
    a copy for inference: in 64 bits and in batches if the model allows it, so that one user and a
    batch have the same scores; otherwise one user at a time.
    """

    knows_all = True
    is_partial = True

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:  # noqa: ARG002
        # The users are those of the dataset.
        pair = model if isinstance(model, tuple) else (model,)
        kinds = (AbstractRecommender, Dataset)
        if len(pair) != len(kinds) or not all(map(isinstance, pair, kinds)):
            raise InputError(
                "A model of RecBole needs its dataset, which has the ids. Pass the trained model "
                "and the dataset: wrap((model, dataset))."
            )
        self.model, (network, self._dataset) = model, pair
        own = self._ids_of(self._dataset.iid_field, "item")
        self._n_items = len(own) + 1
        self.items = own_ids(own, items, self.name)
        self.users = self._ids_of(self._dataset.uid_field, "user")
        self.form = _as_form(network)
        self.is_sequential = isinstance(network, SequentialRecommender)
        self.knows_users = not self.is_sequential and not isinstance(self.form, ItemItem)
        self.folds_in = isinstance(self.form, ItemItem) or _is_one_of(network, _OF_RATINGS)
        if self.form is None:
            self._prepare(network)

    def _ids_of(self, field: str, noun: str) -> IdMap:
        """Return tokens without padding; as integers if they all are, because tokens are text."""
        tokens = ids_of(self._dataset.field2id_token[field][1:].tolist(), None, noun, self.name)
        numbers = tokens.ids.cast(pl.Int64, strict=False)
        return IdMap(numbers, noun=noun) if numbers.cast(pl.String).equals(tokens.ids) else tokens

    def _prepare(self, network: Any) -> None:
        """Copy the network, and find out by trial what it needs."""
        self._network, self._at_once = deepcopy(network).double().eval(), None
        try:
            scores = self._try()
        except RuntimeError:  # some of its own tensors stay in 32 bits
            self._network, self._at_once = deepcopy(network).eval(), 1
            scores = self._try()
        if not np.array_equal(scores, self._try(), equal_nan=True):
            raise InputError(
                f"{self.name} of RecBole scores at random: the same user has other scores in the "
                "next call. Wrap another model, or a frame of scores."
            )

    def _try(self) -> NDArray[np.floating]:
        """Return some scores; by user and history if a sequential model needs both."""
        first, history = np.arange(1), [np.arange(min(_FEW, self._n_items - 1))]
        try:
            if not self.is_sequential:
                return self.score_users(first)
            if not self.uses_both:
                try:
                    found = self.score_histories(history)
                except KeyError:
                    self.uses_both = self.knows_users = True
                else:
                    self.folds_in = True
                    return found
            return self.score_both(first, history)
        except KeyError as error:
            raise InputError(
                f"{self.name} of RecBole needs the field {error} of each interaction, which a "
                "request does not have. Wrap a frame of its scores."
            ) from None

    @property
    def own_name(self) -> str:
        """Name of the class of the model."""
        return type(self.model[0]).__name__

    def check_fitted(self) -> None:
        """Accept, as RecBole does not mark trained models."""

    def score_users(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return the scores of users of the dataset."""
        if self.form is not None:
            return super().score_users(rows)
        return self._scores(self._network, self._of_users(rows))

    def score_both(
        self, rows: NDArray[np.int64], histories: Sequence[NDArray[np.int64]]
    ) -> NDArray[np.floating]:
        """Return the scores of users of the dataset with their histories."""
        asked = self._of_users(rows)
        asked.update(self._sequences(histories))
        return self._scores(self._network, asked)

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the scores of histories, as sequences or as rows of a matrix."""
        if self.form is not None:
            return super().score_histories(histories)
        if self.is_sequential:
            return self._scores(self._network, self._sequences(histories))
        matrix = torch.zeros((len(histories), self._n_items))
        for row, history in enumerate(histories):
            matrix[row, self._known(history)] = 1.0
        of_these = copy(self._network)  # it shares the weights
        of_these.get_rating_matrix = lambda places: matrix[places.cpu()].to(of_these.device)
        places = torch.arange(len(histories))
        return self._scores(of_these, Interaction({self._dataset.uid_field: places}))

    def _of_users(self, rows: NDArray[np.int64]) -> Any:
        indices = torch.as_tensor(rows + 1)
        return self._dataset.join(Interaction({self._dataset.uid_field: indices}))

    def _sequences(self, histories: Sequence[NDArray[np.int64]]) -> Any:
        length = self._network.max_seq_length
        last = [self._known(history)[-length:] for history in histories]
        padded = torch.zeros((len(last), length), dtype=torch.int64)
        for row, sequence in enumerate(last):
            padded[row, : len(sequence)] = sequence
        lengths = torch.tensor([len(sequence) for sequence in last])
        network = self._network
        return Interaction({network.ITEM_SEQ: padded, network.ITEM_SEQ_LEN: lengths})

    def _known(self, history: NDArray[np.int64]) -> torch.Tensor:
        return torch.as_tensor(history[history < self._n_items - 1] + 1)

    def _scores(self, network: Any, asked: Any) -> NDArray[np.floating]:
        step = self._at_once or len(asked)
        places = np.arange(len(asked))
        with _LOCK, torch.no_grad():
            found = [
                self._of_block(network, asked[places[first : first + step]])
                for first in range(0, len(asked), step)
            ]
        return self._with_all_items(torch.cat(found).float().numpy())

    def _of_block(self, network: Any, asked: Any) -> torch.Tensor:
        asked = asked.to(network.device)
        try:
            scores = network.full_sort_predict(asked)
        except NotImplementedError:  # a model of pairs of users and items
            pairs = asked.repeat_interleave(self._n_items)
            pairs.update(self._dataset.get_item_feature().to(network.device).repeat(len(asked)))
            scores = network.predict(pairs)
        return scores.view(-1, self._n_items)[:, 1:].cpu()


def _as_form(network: Any) -> Form | None:
    """Return a model as arrays without the padding, if its scores are products or sums."""
    if _is_one_of(network, frozenset({"BPR"})):
        tables = (network.user_embedding, network.item_embedding)
        return Factors(*(each.weight.detach().cpu().numpy()[1:] for each in tables))
    if _is_one_of(network, frozenset({"EASE", "SLIMElastic"})):
        weights = network.item_similarity
    elif _is_one_of(network, frozenset({"ItemKNN"})) and network.method == "item":
        weights = network.w
    else:
        return None
    kept = weights.tocsr() if hasattr(weights, "tocsr") else np.asarray(weights)
    return ItemItem(kept[1:, 1:])


def _is_one_of(network: Any, names: frozenset[str]) -> bool:
    kind = type(network)
    return kind.__name__ in names and kind.__module__.startswith("recbole.")
