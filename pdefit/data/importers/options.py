"""Options of imports that are lists of numbers, such as `crop=[0,100,0,80]`."""

import math

from pdefit._util.errors import PdefitError


def numbers(key: str, text: str, example: str, counts: tuple[int, ...], whole: bool = True) -> list[float]:
    """The numbers in a text such as "[64, 32]".

    **Arguments:**

    - `key`: name of the option.
    - `text`: its value, with or without brackets.
    - `example`: a right value, for the error.
    - `counts`: how many numbers there may be; empty where any number will do.
    - `whole`: whether they are whole numbers that are not negative.

    **Errors:** PdefitError where the text is something else.
    """
    try:
        found = [float(word) for word in text.strip().removeprefix("[").removesuffix("]").split(",")]
    except ValueError:
        found = []
    wrong = not all(map(math.isfinite, found)) or (whole and any(n < 0 or n != int(n) for n in found))
    if not found or wrong or (counts and len(found) not in counts):
        raise PdefitError(f"{key} expects {key}={example}, but got '{text}'; correct it")
    return [int(n) for n in found] if whole else found


def number(key: str, text: str, least: int = 0) -> int:
    """The whole number in a text, which is `least` or more."""
    found = int(numbers(key, text, "2", (1,))[0])
    if found < least:
        raise PdefitError(f"{key} expects {least} or more, but got '{text}'; correct it")
    return found
