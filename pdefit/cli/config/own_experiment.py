"""An experiment in a file that the command line names."""

import re
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pdefit._util.errors import PdefitError, first_line
from pdefit.cli.config.configuration import readable


def register_experiment(path: Path) -> str:
    """Add the experiment in a file to those that Hydra knows; returns its name, that of the file.

    It is checked as an experiment of a plugin is, and names registered classes only.
    """
    name = path.stem
    if not re.fullmatch(r"\w[\w-]*", name):
        raise PdefitError(f"'{path}' expects a name of letters, digits, '_' and '-', since its runs are named after it")
    # opening a pipe or a device could block for ever
    if not path.is_file():
        raise PdefitError(f"The experiment '{path}' does not exist, or is no file; correct the path")
    try:
        content = OmegaConf.load(path)
    except UnicodeDecodeError:
        raise PdefitError(f"'{path}' is not in UTF-8; save it as UTF-8") from None
    except (OmegaConfBaseException, PdefitError) as error:
        raise readable(error) from None
    # YAML raises almost any exception for a damaged text
    except Exception as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f", line {line + 1}"
        told = getattr(error, "problem", None) or first_line(error)
        raise PdefitError(f"'{path}'{where} is not YAML: {told}; `key: value` is expected in every line") from None
    if not isinstance(content, DictConfig) or not content:
        raise PdefitError(f"'{path}' expects the keys of an experiment, e.g. system, data, controls; it holds none")
    ConfigStore.instance().store(name=name, node=content, group="experiment", package="_global_")
    return name
