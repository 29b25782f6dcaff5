"""Adapter of transformers of RecTools (SASRec, BERT4Rec), which score users by their history."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, Self

import torch
from pytorch_lightning import seed_everything
from pytorch_lightning.utilities.seed import isolate_rng

from surerec.adapters._adapter import Adapter, ids_of, of_copy, own_ids
from surerec.adapters._implicit import as_dataset
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from surerec.adapters._adapter import Ids
    from surerec.interactions import IdMap, Interactions

_SEED: Final = 0  # of a copy's training
_PADDING: Final = 0  # code of the padding item


class TransformerAdapter(Adapter):
    """Adapter of a transformer, by its network on an encoded session.

    It does not call ``recommend``, which needs a Dataset, and sorts. Histories are encoded as
    RecTools encodes them. The network is a copy for inference in 64 bits, so that one history and a
    batch have the same scores, and that the model stays unchanged.
    """

    can_fit = True
    knows_all = True
    is_partial = True

    def __init__(self, model: Any, items: Ids = None, users: Ids = None) -> None:
        self.model = model
        preparator = model.data_preparator
        if preparator.add_unix_ts or preparator.extra_cols:
            raise InputError(
                f"{self.name} of RecTools was set up with times or extra columns, which a history "
                "does not have. Wrap the frame that model.recommend returns."
            )
        if model.is_fitted:
            self.items = own_ids(self._encoded_items(), items, self.name)
            if users is not None:
                listed = getattr(users, "external_ids", users)
                self.users = ids_of(list(listed), None, "user", self.name)
        elif items is not None:  # the catalogue for the fit of a copy
            self.items = ids_of(items, None, "item", self.name)

    def _encoded_items(self) -> IdMap:
        """Copy the network of a fitted model, and return the ids of its items."""
        self._network = deepcopy(self.model.torch_model).cpu().double().eval()
        with torch.no_grad():
            self._embeddings = self._network.item_model.get_all_embeddings()
        own = self.model.data_preparator.get_known_item_ids()
        return ids_of(own.tolist(), None, "item", self.name)

    @property
    def is_fitted(self) -> bool:
        """Whether the model is fitted."""
        return bool(self.model.is_fitted)

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Return the scores at the last position of each session; NaN for items not fitted on."""
        preparator = self.model.data_preparator
        n_extra = preparator.n_item_extra_tokens  # padding, and the mask of BERT4Rec
        n_items = len(self._embeddings) - n_extra
        sessions = [
            (history[history < n_items] + n_extra).tolist() or [_PADDING] for history in histories
        ]
        batch = preparator._collate_fn_recommend(  # noqa: SLF001  # as `recommend` encodes them
            [(session, [1.0] * len(session), {}) for session in sessions]
        )
        with torch.no_grad():
            encoded = self._network.encode_sessions(batch, self._embeddings)[:, -1:]
            scores = self._network.similarity_module(encoded, self._embeddings)[:, 0, n_extra:]
        return self._with_all_items(scores.float().numpy())

    def fitted_on(self, known: Interactions) -> Self:
        """Fit a new model with the same parameters and a fixed seed, on weight 1."""
        model = type(self.model).from_config(self.model.get_config())
        dataset = as_dataset(known)
        with isolate_rng():
            seed_everything(_SEED, verbose=False)
            model.fit(dataset)
        users = ids_of(dataset.user_id_map.external_ids.tolist(), None, "user", self.name)
        fresh = self.around(model, None, known.items, users)
        # Items that only the dropped start of long histories has come last, without a score.
        fresh.items = of_copy(fresh._encoded_items().ids, known.items)  # noqa: SLF001
        return fresh
