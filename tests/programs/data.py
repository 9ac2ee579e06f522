# SPDX-License-Identifier: MIT
"""Input files for programs that bring none, made by a seed: the same numbers on every machine."""
import json
import random


def matrix(rows, columns, entries, seed):
    """A sparse matrix of play counts in Matrix Market's format: few popular columns, many rare ones."""
    dice = random.Random(seed)
    cells = {}
    while len(cells) < entries:
        column = int(columns * dice.random() ** 3)
        cells[dice.randrange(rows), column] = 1 + int(dice.expovariate(0.02))
    yield f"%%MatrixMarket matrix coordinate integer general\n{rows} {columns} {entries}\n"
    for (row, column), plays in sorted(cells.items()):
        yield f"{row + 1} {column + 1} {plays}\n"


def table(rows, columns, seed):
    """Comma-separated: a label of two classes, then features, of which some tell the label."""
    dice = random.Random(seed)
    for _ in range(rows):
        features = [dice.gauss(0, 1) for _ in range(columns)]
        label = int(features[0] * features[1] + features[2] + dice.gauss(0, 0.5) > 0)
        yield f"{label},{','.join(f'{each:.5f}' for each in features)}\n"


def settings(values):
    """What the description gives, as JSON."""
    yield json.dumps(values, indent=1)


FORMS = {"matrix": matrix, "settings": settings, "table": table}


def make(folder, file, form, **arguments):
    """Writes the file where it is not there."""
    if (folder / file).exists():
        return
    part = folder / (file + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with open(part, "w", encoding="ascii") as out:
        out.writelines(FORMS[form](**arguments))
    part.rename(folder / file)
