"""A calculation done by hand, number by number: what is right, rounded, cut, carried on, or wrong."""

import regard

check = regard.teaching.check_notes(
    {
        "embeddings": {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], "sat": [1, 1, 1, 1]},
        "scores": {"cat": [0, 2, 3]},
        "weights": {"The": [0.42, 0.15, 0.42]},
    }
)
print(check.summary())
for verdict in check.slips:
    print(f"{verdict.what}: {verdict.given} is {verdict.kind}; {verdict.because}")
