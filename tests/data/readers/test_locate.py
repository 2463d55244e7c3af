from pathlib import Path

import pytest

from pdefit._util.errors import PdefitError
from pdefit.data.readers.locate import locate

SHIPPED = "reference/pleiades_reference.csv"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The user's directory and $PDEFIT_DATA, both empty."""
    mine, configured = tmp_path / "mine", tmp_path / "configured"
    mine.mkdir()
    configured.mkdir()
    monkeypatch.setenv("PDEFIT_DATA", str(configured))
    monkeypatch.chdir(mine)
    return mine, configured


def _put(folder: Path) -> Path:
    file = folder / SHIPPED
    file.parent.mkdir(parents=True)
    file.write_text("x\n")
    return file


def test_locate_prefers_the_given_base_then_the_variable_then_the_packaged_data(places):
    mine, configured = places
    shipped = locate(SHIPPED, mine)
    assert shipped.is_file() and mine not in shipped.parents and configured not in shipped.parents
    second = _put(configured)
    assert locate(SHIPPED, mine) == second
    first = _put(mine)
    assert locate(SHIPPED, mine) == first


def test_locate_looks_in_the_working_directory_without_a_base(places):
    file = _put(places[0])
    assert locate(SHIPPED).samefile(file)


def test_locate_takes_an_absolute_path_as_it_is(places):
    file = _put(places[1])
    assert locate(str(file)) == file


def test_locate_ignores_an_empty_variable(places, monkeypatch):
    monkeypatch.setenv("PDEFIT_DATA", "")
    assert locate(SHIPPED).is_file()


def test_locate_lists_the_places_it_looked_at(places):
    with pytest.raises(PdefitError) as error:
        locate("nofile.h5", places[0])
    for place in places:
        assert str(place / "nofile.h5") in str(error.value)
    assert "PDEFIT_DATA" in str(error.value)


def test_locate_does_not_mistake_a_folder_for_a_file(places):
    (places[0] / "folder").mkdir()
    with pytest.raises(PdefitError, match="folder"):
        locate("folder", places[0])
