"""An import-linter contract: private modules are imported only within their package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, output

if TYPE_CHECKING:
    from grimp import ImportGraph


class PrivateContract(Contract):
    """A module with a leading underscore is imported only within its package.

    The wildcards of import-linter match whole names, so its own contracts would need one entry for
    every private module.
    """

    type_name = "private"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001
        """Check every import, including those for types."""
        crossings = sorted(
            (importer, imported)
            for importer in graph.modules
            for imported in graph.find_modules_directly_imported_by(importer)
            if not _may_import(importer, imported)
        )
        return ContractCheck(kept=not crossings, metadata={"crossings": crossings})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports of private modules."""
        for importer, imported in check.metadata["crossings"]:
            output.print_error(f"{importer} imports {imported}, which is private to its package.")


def _may_import(importer: str, imported: str) -> bool:
    parts = imported.split(".")
    return all(
        f"{importer}.".startswith(".".join(parts[:place]) + ".")
        for place, part in enumerate(parts)
        if part.startswith("_")
    )
