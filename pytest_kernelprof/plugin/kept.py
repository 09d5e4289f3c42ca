"""The traces of failed tests: which are kept, and what a message says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..artifacts import Artifacts


@dataclass(slots=True)
class Kept:
    """A trace that is kept if its test fails.

    Attributes:
        file: The trace, as long as its fixture lives.
        name: Of the file in which it is kept.
        owner: Id of the test in which the profile was made.
        row: What reports know of the profile.
        asked: A message has named it since the last test ended.
    """

    file: Path
    name: str
    owner: str
    row: dict[str, Any]
    asked: bool = False


class KeptTraces:
    """The traces of a run, until it is known which of them are kept."""

    def __init__(self, artifacts: Callable[[], Artifacts], shown: Callable[[Path], str]) -> None:
        """Begin.

        Args:
            artifacts: Returns the folder.
            shown: Returns how messages name a file.
        """
        self._artifacts = artifacts
        self._shown = shown
        self._kept: list[Kept] = []

    def add(self, kept: Kept) -> Callable[[], str | None]:
        """Take note of a trace; return what names it in a message."""
        self._kept.append(kept)

        def name() -> str | None:
            kept.asked = True
            artifacts = self._artifacts()
            return self._shown(artifacts.folder / kept.name) if artifacts.most else None

        return name

    def keep(self, test: str, error: BaseException) -> list[str]:
        """Keep the traces of a test that may have failed, and correct its message where one cannot be kept.

        Returns:
            Lines for its report, on what its message does not tell.
        """
        lines = []
        for kept in self._of(test):
            artifacts = self._artifacts()
            shown = self._shown(artifacts.folder / kept.name)
            named = f"trace: {shown}   open in https://ui.perfetto.dev"
            try:
                why = artifacts.keep(kept.file, kept.name)
            except OSError as refusal:
                why = refusal.strerror or str(refusal)
            told = f"trace not kept: {shown}: {why}" if why else named
            kept.row["trace"] = None if why else shown
            if named not in str(error):
                lines += [told] if artifacts.most else []
            elif why:
                error.args = (str(error).replace(named, told), *error.args[1:])
        return lines

    def forget(self, test: str) -> None:
        """Remove what was kept of a test that did not fail after all."""
        for kept in self._of(test):
            kept.row["trace"] = None
            self._artifacts().forget(kept.name)

    def _of(self, test: str) -> list[Kept]:
        return [kept for kept in self._kept if (kept.asked or kept.owner == test) and kept.file.exists()]

    def test_ended(self) -> None:
        """Forget what messages of the test have named."""
        for kept in self._kept:
            kept.asked = False

    def drop(self, folder: Path) -> None:
        """Forget the traces of a fixture, whose folder goes."""
        self._kept = [kept for kept in self._kept if kept.file.parent != folder]
