"""The page of what heads do: heads over any two metrics, the whole model on one screen, and one head in detail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import atomic_file, codec, errors, input_file
from regard.arrays import numpy_of
from regard.examples import named
from regard.heads import profile, roles
from regard.reading.layer_numbers import are_counted
from regard.viewer import frames
from regard.viewer.page import document
from regard.viewer.page_parts import block

if TYPE_CHECKING:
    from regard.heads.roles import KnownHeads
    from regard.reading import Reading
    from regard.reading.reader import Reader

ENTRY = "hosts/heads.js"
LARGEST = 24 << 20  # bytes of attention weights of one model in the page
LONGEST = 64  # tokens of a text whose maps are in the page
DIGITS = 4  # of statistics
SENTENCES = ("keys", "kids", "action")  # examples whose maps a page has where no short text is given


def save(
    path: str | os.PathLike[str], heads: Sequence[Mapping[str, Any]], readings: Sequence[Sequence[Reading]] = (),
    links: Mapping[str, str] | None = None,
) -> Path:  # fmt: skip
    """Write the page of one model, or of two to compare; arguments as of `pieces`."""
    return atomic_file.write(path, pieces(heads, readings, links))


def pieces(
    heads: Sequence[Mapping[str, Any]], readings: Sequence[Sequence[Reading]] = (),
    links: Mapping[str, str] | None = None,
) -> Iterator[str]:  # fmt: skip
    """The page in pieces.

    heads      of each model what `Profile.data` gives, or an atlas has in heads.json
    readings   of each model short texts whose attention maps the page shows
    links      other pages of a site: their labels and addresses
    """
    if not 1 <= len(heads) <= 2:
        raise errors.OptionError(f"A page shows the heads of one or two models; {len(heads)} came.")
    names = [str(model_heads["model"]) for model_heads in heads]
    title = f"What the heads of {' and '.join(names)} do"
    models, arrays = [], {}
    for index, model_heads in enumerate(heads):
        of_model = [
            reading for reading in (readings[index] if index < len(readings) else ()) if _fits(reading, model_heads)
        ]
        atlas = roles.of_weights(model_heads.get("weights", ()))
        sentences = []
        for number, reading in enumerate(of_model):  # weights (layer, head, query, key), in 8 bits
            attention, is_first = reading.seen[0].attention, reading.sinks[:1] == (0,) and not reading.tokens[0].special
            sentences.append({
                "text": reading.text,
                "tokens": [token.text for token in reading.tokens],
                "sinks": list(reading.sinks),
                "causal": is_first or (attention.mask is not None and not numpy_of(attention[0, 0, 1:]).any()),
            })  # fmt: skip
            weights = np.stack([numpy_of(seen.attention[:, :, :]) for seen in reading.seen])
            arrays[f"weights_{index}_{number}"] = np.rint(255 * np.clip(weights, 0, 1)).astype(np.uint8)
        models.append({**_model(model_heads, atlas), "sentences": sentences})
    blocks = [block("heads", frames.pack({"title": title, "models": models}, arrays))]
    then = "See one of these heads at work in a sentence:", "regard see --layer 3 --head 1", "Try it"
    yield from document(title, ENTRY, blocks, links=links, current="Heads", then=then)


def page(sources: Sequence[str | os.PathLike[str]], tell: Callable[[str], None] = lambda _line: None) -> str:
    """The page of what earlier runs wrote: folders of atlases, or .json files, of one model or of two to compare.

    tell   called with a line where the attention maps of a model are left out
    """
    if len(sources) > 2:
        raise errors.OptionError(f"A page compares at most two models; {len(sources)} came.")
    data = [_stored(Path(source)) for source in sources]
    readings = [_stored_maps(heads, Path(source), tell) for heads, source in zip(data, sources, strict=True)]
    return "".join(pieces(data, readings))


def maps(reader: Reader, texts: Sequence[str] = ()) -> list[Reading]:
    """Short texts as a model reads them, whose attention maps a page has: the given ones, then examples."""
    most = min(LONGEST, reader.longest)
    sentences = [*texts[:6], *(str(named(name).content) for name in SENTENCES)]
    return [reader.read(text) for text in sentences if len(reader.tokeniser.encode(text).ids) <= most]


def _stored(source: Path) -> dict[str, Any]:
    """What `regard heads` wrote as JSON: the file, or heads.json of an atlas."""
    path = source / "heads.json" if source.is_dir() else source
    written = input_file.read(path)
    try:
        content = json.loads(written)
        version = content["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise errors.OptionError(f"{str(path)!r} is not what regard heads text --out heads.json writes.") from None
    if version != profile.FORMAT:
        came = errors.shown(version)
        raise errors.OptionError(f"{str(path)!r} has format {came}; this version reads {profile.FORMAT}.")
    try:
        return codec.without_digest(content)
    except errors.OptionError as problem:
        raise errors.OptionError(f"{str(path)!r} cannot be used: {problem}.") from None


def _stored_maps(data: Mapping[str, Any], source: Path, tell: Callable[[str], None]) -> list[Reading]:
    """The example sentences, where the model that the numbers are of can be opened."""
    from regard.heads import atlas_folder
    from regard.models.model import model

    try:
        reader = model(data["model"])
    except errors.RegardError as problem:
        tell(f"{source}: without attention maps. {str(problem).splitlines()[0]}")
        return []
    changed = bool(data.get("weights")) and data["weights"] != [roles.layer_digest(block) for block in reader.blocks]
    if (source / "atlas.json").is_file():
        changed |= atlas_folder.Manifest.read(source).weights != atlas_folder.model_digest(reader)
    if changed:
        tell(f"{source}: without attention maps, because {data['model']} has other weights now.")
        return []
    return maps(reader)


def _fits(reading: Reading, data: Mapping[str, Any]) -> bool:
    whole = are_counted(reading.layer_numbers) and are_counted(reading.head_numbers)
    same = whole and (reading.layers, reading.heads) == (data["layers"], data["heads"])
    weights = reading.layers * reading.heads * len(reading.tokens) ** 2
    return same and len(reading.tokens) <= LONGEST and weights <= LARGEST


def _model(data: Mapping[str, Any], atlas: KnownHeads | None) -> dict[str, Any]:
    best = {(score["relation"], score["direction"]): score for score in data["relations"]}
    relations = [
        _relation(score, best[score["relation"], score["direction"]])
        for score in data.get("by_head", [])
        if roles.is_telling(score, best[score["relation"], score["direction"]])
    ]
    measured_on = str(data["source"])
    if not relations and atlas is not None:
        measured_on = roles.TREEBANK
        relations = [
            {
                **{name: getattr(role, name) for name in ("relation", "direction", "layer", "head", "arrow")},
                "accuracy": [role.accuracy, role.low, role.high],
                "gain": role.accuracy - role.offset_accuracy,
                "offset": role.offset_accuracy,
                "untrained": role.untrained,
                "words": role.words,
            }
            for role in atlas.roles
        ]
    statistics = [
        {**score, **{part: _rounded(score[part]) for part in ("mean", "low", "high")}} for score in data["statistics"]
    ]
    for name, order in (data.get("ranks") or {}).items():
        statistics.append({"name": f"rank of {name}", "meaning": f"effective rank of {name}", "mean": _rounded(order)})
    return {
        **{name: data[name] for name in ("model", "source", "layers", "heads", "about", "patterns", "labels")},
        "names": atlas and atlas.names,
        "notes": data.get("notes", []),
        "statistics": statistics,
        "relations": relations,
        "relations_on": measured_on,
        "examples": data.get("examples", []),
        "tenths": data.get("tenths"),
    }


def _relation(score: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """A relation that a head finds, beside what simpler ways reach."""
    untrained = best["untrained"]
    return {
        **{name: score[name] for name in ("relation", "direction", "layer", "head")},
        "arrow": roles.arrow(score["relation"], score["direction"]),
        "accuracy": [score["accuracy"][part] for part in ("value", "low", "high")],
        "gain": score["gain"]["value"],
        "offset": best["offset_accuracy"]["value"],
        "untrained": None if untrained is None else untrained["value"],
        "words": best["queries"],
    }


def _rounded(numbers: Any) -> Any:
    return [[None if number is None else round(number, DIGITS) for number in row] for row in numbers]
