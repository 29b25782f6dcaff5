"""The arrays and texts of recommenders, as files that their manifest entries name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from surerec.storage._content import array_content, text_content
from surerec.storage._expect import expect
from surerec.storage._layout import PART_ROLES, role_of
from surerec.storage._spec import RecommenderSpec, check_part_name, check_recommenders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from surerec.storage._content import Content
    from surerec.storage._spec import JSON


PartKey: TypeAlias = tuple[str, str, str]
"""The recommender's name, "arrays" or "texts", the part's name."""


class PartFiles(Protocol):
    """Gives what the files of parts hold, by name."""

    def part_array(self, name: str) -> NDArray[Any]:
        """Give an array."""

    def part_text(self, name: str) -> str:
        """Give a text."""


@dataclass(frozen=True)
class RecommenderCard:
    """A recommender as the manifest has it: its parts are names of files."""

    kind: str
    params: Mapping[str, JSON]
    arrays: Mapping[str, str]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, name: str, spec: RecommenderSpec, files: Mapping[PartKey, str]) -> RecommenderCard:
        """Describe a recommender, given the file of each part."""
        arrays, texts = (
            {part: files[name, field, part] for part in getattr(spec, field)}
            for field in PART_ROLES
        )
        return cls(spec.kind, spec.params, arrays, texts)

    @classmethod
    def from_card(cls, name: str, value: object) -> RecommenderCard:
        """Read a content back; ValueError if it is not one that `card` gives."""
        fields = {"kind": str, "params": dict}
        if isinstance(value, dict) and value.keys() & PART_ROLES.keys():
            fields |= dict.fromkeys(PART_ROLES, dict)
        given = expect(value, **fields)
        spec = check_recommenders({name: RecommenderSpec(given["kind"], given["params"])})[name]
        parts = {field: given.get(field, {}) for field in PART_ROLES}
        for field, role in PART_ROLES.items():
            for part, file in parts[field].items():
                check_part_name(name, part)
                if not isinstance(file, str) or role_of(file) != role:
                    raise ValueError(file)
        found = cls(spec.kind, spec.params, **parts)
        if found.card() != given:
            raise ValueError(given)
        return found

    def card(self) -> dict[str, Any]:
        """Give the content as JSON has it; without parts, as it was before there were any."""
        parts = {"arrays": dict(self.arrays), "texts": dict(self.texts)}
        return {"kind": self.kind, "params": self.params, **(parts if self.files() else {})}

    def files(self) -> set[str]:
        """Give the names of the files of all parts."""
        return {*self.arrays.values(), *self.texts.values()}

    def spec(self, files: PartFiles) -> RecommenderSpec:
        """Put the recommender together again."""
        return RecommenderSpec(
            self.kind,
            self.params,
            {part: files.part_array(name) for part, name in self.arrays.items()},
            {part: files.part_text(name) for part, name in self.texts.items()},
        )


def part_contents(specs: Mapping[str, RecommenderSpec]) -> dict[PartKey, Content]:
    """Give the content of every part."""
    contents: dict[PartKey, Content] = {}
    for name, spec in specs.items():
        for part, array in spec.arrays.items():
            contents[name, "arrays", part] = array_content(PART_ROLES["arrays"], array)
        for part, text in spec.texts.items():
            contents[name, "texts", part] = text_content(PART_ROLES["texts"], text)
    return contents
