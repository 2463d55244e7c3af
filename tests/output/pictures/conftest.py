from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved, in coarse pixels."""
    saved: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, path: Any, **_: Any) -> None:
        saved.append(figure)
        save(figure, path, dpi=20)

    monkeypatch.setattr(Figure, "savefig", kept)
    return saved
