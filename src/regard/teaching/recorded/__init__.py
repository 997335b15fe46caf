"""Results of training runs that lessons and slides show; `python docs/record_training.py` runs them again.

heads.json     `regard train facts --heads H --seed S`: accuracy, and the best head's for each relation
networks.json  `regard compare lookup --steps 1200 --set pairs=8,vocabulary=64,batch=16`: accuracy per network and seed
relations.json `regard train relations --seed S`: accuracy and the best head of each relation, before and after
film.json      one run of `facts` with four heads: their weights on a test sequence after some steps
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Name = Literal["heads", "networks", "relations", "film"]


def is_recorded(name: str) -> bool:
    return files(__name__).joinpath(f"{name}.json").is_file()


@cache
def recorded(name: Name) -> Any:
    """The content of a file.

    >>> recorded("film")["steps"][0]
    0
    """
    return json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))
