"""Trees in the cache: a key that sees everything that may change them, and damaged files that are made anew."""

import sys
import types

import jax
import numpy as np
import pytest

from pdefit._util import cached_tree as module
from pdefit._util.cache import digest, sources
from pdefit._util.cached_tree import cached_tree, origin

TREE = {"a": np.arange(3.0), "b": np.array([1.5])}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pdefit" / "trees"


def taken():
    """A tree from the cache, whether it was there, and what was told."""
    told = []
    tree, _, found = cached_tree("trees", "x", iter([b"1"]), TREE, lambda: TREE, told.append)
    for name, x in TREE.items():
        np.testing.assert_array_equal(tree[name], x)
    return found, told


def test_a_file_with_any_wrong_byte_is_never_believed(folder):
    assert taken() == (False, []) and taken() == (True, [])
    (path,) = folder.iterdir()
    whole, refused = path.read_bytes(), 0
    for k in range(0, len(whole), 3):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 0xFF]) + whole[k + 1 :])
        found, told = taken()
        assert found or told == [f"'{path}' of the cache is damaged, and is made anew"]
        refused += not found
    # a wrong byte in a date or an attribute of the archive changes no number
    assert refused > len(whole) / 6


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_file_that_was_cut_is_made_anew_with_one_sentence(folder, size):
    taken()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:size])
    found, told = taken()
    assert not found and len(told) == 1
    assert taken() == (True, [])


def key():
    return digest(origin("1", np.zeros(2)))


def test_settings_of_the_compiler_are_seen(monkeypatch):
    before = key()
    monkeypatch.setenv("XLA_FLAGS", f"{module.os.environ.get('XLA_FLAGS', '')} --another")
    assert key() != before
    monkeypatch.undo()
    assert key() == before
    with jax.enable_x64(False):
        assert key() != before
    monkeypatch.setattr(jax, "__version__", "another")
    assert key() != before


def test_sources_of_plugins_are_seen(tmp_path, monkeypatch):
    plugin = tmp_path / "plugin"
    (plugin / "inside").mkdir(parents=True)
    monkeypatch.setattr(module, "packages", lambda: {"plugin": plugin})
    before = key()
    (plugin / "inside" / "operators.py").write_text("order = 2\n")
    sources.cache_clear()
    assert key() != before


def test_a_module_beside_the_file_of_equations_is_seen(tmp_path, monkeypatch):
    helper = types.ModuleType("rates_of_the_user")
    helper.__file__ = str(tmp_path / "rates.py")
    (tmp_path / "rates.py").write_text("k = 1.0\n")
    monkeypatch.setitem(sys.modules, helper.__name__, helper)
    before = key()
    (tmp_path / "rates.py").write_text("k = 2.0\n")
    assert key() != before


def test_what_is_installed_is_not_read_as_the_users(monkeypatch):
    before = key()
    for name, file in (("a", jax.__file__), ("b", types.__file__), ("c", module.__file__)):
        monkeypatch.setitem(sys.modules, f"installed_{name}", types.SimpleNamespace(__file__=file))
    assert key() == before
