#!/usr/bin/env python3
"""Golden values of the rank statistics, from scipy: writes reports/tests/golden/rank_statistics.json.

Needs scipy (written with 1.17.1). The data are random and fixed by a seed; half of them have ties. p-values are those of
the full permutation test, which is exact with ties, and of `mannwhitneyu` where nothing is tied or the samples are large.
Intervals are found by inverting `mannwhitneyu`: a shift belongs to the interval when the test does not reject it.
"""

import json
import math
import pathlib

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


def p_value(before, after):
    tied = len(set(before + after)) < len(before + after)
    if len(before) + len(after) > 60:
        return stats.mannwhitneyu(after, before, method="asymptotic").pvalue
    if not tied:
        return stats.mannwhitneyu(after, before, method="exact").pvalue
    if math.comb(len(before) + len(after), len(after)) > 200_000:
        return None

    def u(x, y, axis=-1):
        pooled = np.concatenate([x, y], axis=axis)
        return stats.rankdata(pooled, axis=axis)[..., : x.shape[-1]].sum(axis=axis)

    return stats.permutation_test(
        (np.array(after), np.array(before)), u, n_resamples=np.inf, vectorized=True, permutation_type="independent"
    ).pvalue


def interval(before, after):
    """The differences between which every shift is accepted; only where no two differences are equal."""
    differences = np.sort(np.subtract.outer(np.array(after), np.array(before)).ravel())
    if len(before) + len(after) > 60 or len(set(differences)) < len(differences):
        return None, False
    edges = np.concatenate([[differences[0] - 1], differences, [differences[-1] + 1]])
    middles = (edges[1:] + edges[:-1]) / 2
    accepted = [
        stats.mannwhitneyu(np.array(after) - shift, before, method="exact").pvalue > 1 - CONFIDENCE + 1e-12
        for shift in middles
    ]
    if accepted[0]:
        return None, True
    first = accepted.index(True)
    last = len(accepted) - 1 - accepted[::-1].index(True)
    return [float(edges[first]), float(edges[last + 1])], True


def main():
    random = np.random.default_rng(20261129)
    cases = []
    for number in range(160):
        large = number % 20 == 19
        m, n = (int(size) for size in random.integers(*((31, 45) if large else (2, 10)), size=2))
        shift = random.choice([0.0, 0.5, 2.0])
        before = random.normal(10.0, 1.0, size=m)
        after = random.normal(10.0 + shift, 1.0, size=n)
        digits = 0 if number % 2 else 9
        before = [float(value) for value in np.round(before, digits)]
        after = [float(value) for value in np.round(after, digits)]
        bounds, checked = interval(before, after)
        p = p_value(before, after)
        cases.append(
            {
                "before": before,
                "after": after,
                "u": float(stats.mannwhitneyu(after, before, method="asymptotic").statistic),
                "p": None if p is None else float(p),
                "shift": float(np.median(np.subtract.outer(after, before))),
                "interval": bounds,
                "interval_checked": checked,
            }
        )
    path = pathlib.Path(__file__).resolve().parents[2] / "reports/tests/golden/rank_statistics.json"
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{len(cases)} cases, {sum(case['p'] is not None for case in cases)} with p")


if __name__ == "__main__":
    main()
