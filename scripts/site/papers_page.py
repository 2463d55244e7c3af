"""The page of published numbers beside ours: from docs/papers.json and docs/measured.json."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_INTRODUCTION = """---
hide: [navigation]
---

# Reproduce the papers

What founding papers of the field publish, and what pdefit finds for the same task. Published numbers are those of text and
tables. Ours are those of `docs/measured.json`, which names the command and the record of each. This page is made from them.

- **as good?** compares the numbers that can be compared, seconds included where some are published. *no* is a miss, and
  *2 of 4* is one in part.
- *not measured* means that no number of ours is on record.
- **null model** is the score of a model that knows nothing of the data: the guess from which our fit starts, persistence, a
  mean, or rest. A score is worth what it gains over this one. If a null model is as good as what was published, the row says
  so. `python tests/benchmarks/null_models.py` measures these scores.
- Published numbers are mostly those of one draw of noise. Ours are medians where several draws are named.
- Data, machines and stopping rules differ from paper to paper. So a faster or a better fit is no proof of a better method.

Seconds without a word are wall-clock times of the whole command on a virtual machine with two cores (AMD EPYC or Intel
Xeon). *CPU* are seconds of the processor on one core of such a machine, mostly beside other work. *H100* is one NVIDIA H100
with 16 cores of its host.
"""
_NOTHING, _NO_NULL = "not measured", "no null model measured"
# `{KEY}` or `{KEY|form}`: a number of docs/measured.json
_NUMBER = re.compile(r"\{([^{}|]+)(?:\|([^{}]*))?\}")
Measured = Mapping[str, Mapping[str, Any]]


def write(papers: Mapping[str, Any], measured: Measured) -> str:
    """The page.

    **Arguments:**

    - `papers`: the content of docs/papers.json: sources, and rows with published numbers and the keys of ours.
    - `measured`: the content of docs/measured.json.
    """
    parts = [_INTRODUCTION]
    for name, paper in papers["papers"].items():
        rows = [row for row in papers["rows"] if row["paper"] == name]
        head = "| what | published | ours | as good? | null model | seconds |\n|---|---|---|---|---|---|"
        parts.append(f"## {paper['title']}\n\n[{paper['cite']}]({paper['url']})")
        parts.append("\n".join([head, *(_row(row, measured) for row in rows)]))
    return "\n\n".join(parts) + "\n"


def filled(text: str, measured: Measured) -> str:
    """A text with the measured numbers that it names.

    **Arguments:**

    - `text`: with `{KEY}`, or with `{KEY|%}` for a part in percent and `{KEY|100}` for one without the sign.
    - `measured`: numbers by their keys.
    """

    def number(found: re.Match[str]) -> str:
        entry, form = measured[found[1]], found[2] or ""
        unit = " s" if entry["unit"] == "s" else " %" if form == "%" else ""
        return rounded(abs(entry["value"]) * (100 if form else 1)) + unit

    return _NUMBER.sub(number, text)


def keys(row: Mapping[str, Any]) -> Iterator[str]:
    """The keys of all measured numbers that a row shows or compares."""
    for text in (row["ours"] or "", row["seconds"], row["null"] or ""):
        yield from (found[1] for found in _NUMBER.finditer(text))
    yield from (key for key, _, _ in (*row.get("compare", ()), *row.get("null_compare", ())))


def outcome(compare: Sequence[tuple[str, str, float]], measured: Measured) -> str:
    """Verdict on our numbers beside those published: yes, no, or how many are as good.

    **Arguments:**

    - `compare`: for each a key of ours, `<=` or `>=`, and what was published.
    - `measured`: numbers by their keys.
    """
    kept = [
        abs(measured[key]["value"]) <= limit if sense == "<=" else measured[key]["value"] >= limit
        for key, sense, limit in compare
    ]
    if not kept:
        return ""
    return "yes" if all(kept) else "**no**" if not any(kept) else f"**{sum(kept)} of {len(kept)}**"


def rounded(number: float) -> str:
    """A number to three digits, in powers of ten below a hundred-thousandth."""
    short = float(f"{number:.3g}")
    mantissa, _, exponent = f"{short:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}" if 0 < short < 1e-5 else f"{short:.9f}".rstrip("0").rstrip(".")


def _row(row: Mapping[str, Any], measured: Measured) -> str:
    command = f"<br>`{row['command']}`" if "command" in row else ""
    ours = _NOTHING if row["ours"] is None else filled(row["ours"], measured)
    null = _NO_NULL if row["null"] is None else filled(row["null"], measured)
    passed = outcome(row.get("null_compare", ()), measured)
    cells = (
        row["what"] + command,
        row["published"],
        ours,
        outcome(row.get("compare", ()), measured),
        # where a published number is no better than knowing nothing
        null if passed in ("", "**no**") else f"{null}; as good as published: {passed}",
        filled(row["seconds"], measured),
    )
    return f"| {' | '.join(cells)} |"
