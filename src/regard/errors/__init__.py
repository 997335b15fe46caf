"""The errors of Regard, and their wording in one place.

Every function here returns an error for the caller to raise. A message names the argument, says what came and what was
expected, and ends with the likely fix:

>>> print(head_dims_differ((2, 8, 5, 64), (2, 8, 7, 48)))
`keys` have head_dim 48, `queries` have 64.
  queries  batch 2, head 8, query 5, head_dim 64
  keys     batch 2, head 8, key 7,   head_dim 48
Both come out of projections of the same width: check W_k.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from regard.errors.wording import (
    Shaped,
    axes_of,
    count,
    did_you_mean,
    kind_of,
    message,
    shape_of,
    shown,
    size_in_bytes,
    there_are,
    type_name,
)


class RegardError(Exception):
    """What all errors of Regard are."""


class ShapeError(RegardError, ValueError):
    """Arrays whose shapes do not fit each other."""


class TypeProblem(RegardError, TypeError):
    """An array of a type that attention cannot be computed with."""


class OptionError(RegardError, ValueError):
    """An option with a value that makes no sense, or an option that is needed and missing."""


class OutOfRange(RegardError, IndexError):
    """An index past the end of an axis."""


class TooLarge(RegardError, MemoryError):
    """A result that would take more memory than allowed."""


class Unsupported(RegardError, NotImplementedError):
    """Something that makes sense and that Regard does not do."""


# Shapes


def head_dims_differ(queries: Shaped, keys: Shaped) -> ShapeError:
    """Queries and keys whose last axes differ."""
    came = f"`keys` have head_dim {shape_of(keys)[-1]}, `queries` have {shape_of(queries)[-1]}."
    return _misfit(came, "Both come out of projections of the same width: check W_k.", queries=queries, keys=keys)


def heads_do_not_divide(queries: Shaped, keys: Shaped) -> ShapeError:
    """Query heads that cannot be shared out evenly among the key heads."""
    query_heads, key_heads = shape_of(queries)[-3], shape_of(keys)[-3]
    came = f"{count(query_heads, 'query head')} cannot share {count(key_heads, 'key head')} evenly."
    fix = "Each key head serves the same number of query heads: check the order of the axes."
    return _misfit(came, fix, queries=queries, keys=keys)


def batch_differs(queries: Shaped, keys: Shaped) -> ShapeError:
    """Queries and keys of different batches."""
    came = f"`keys` hold {count(shape_of(keys)[0], 'sequence')}, `queries` hold {shape_of(queries)[0]}."
    return _misfit(came, "Each sequence needs its own keys: expand `keys` along the batch.", queries=queries, keys=keys)


def axes_differ(queries: Shaped, keys: Shaped) -> ShapeError:
    """Queries with another number of axes than keys."""
    came = f"`keys` have {count(len(shape_of(keys)), 'axis')}, `queries` have {len(shape_of(queries))}."
    return _misfit(came, "Give both the same axes: keys[None] adds one in front.", queries=queries, keys=keys)


def wrong_dimensions(name: str, array: Shaped) -> ShapeError:
    """An array with too few or too many axes."""
    shape, (what, last) = shape_of(array), axes_of(name)[-2:]
    fix = f"For a single {what}, add its axis: {name}[None]." if len(shape) < 2 else "Join the leading axes into one."
    return ShapeError(
        f"`{name}` have {count(len(shape), 'axis')}, shape {shape}; expected ({what}, {last}), with head and batch "
        f"in front where there are any.\n{fix}"
    )


def empty_keys(queries: Shaped, keys: Shaped) -> ShapeError:
    """No keys at all."""
    return _misfit(
        "`keys` hold no key, so there is nothing to attend to.",
        "Attention needs at least one key: check how `keys` were sliced.",
        queries=queries,
        keys=keys,
    )


def empty_head_dim(name: str, array: Shaped) -> ShapeError:
    """Vectors without a single number."""
    fix = "Vectors need at least one number: check the width of W."
    return _misfit(f"`{name}` have head_dim 0.", fix, **{name: array})


def values_count_differs(keys: Shaped, values: Shaped) -> ShapeError:
    """Not one value for each key."""
    came = f"`values` hold {count(shape_of(values)[-2], 'value')} for {count(shape_of(keys)[-2], 'key')}."
    return _misfit(came, "Each key needs one value: project both from the same tokens.", keys=keys, values=values)


def values_do_not_fit(keys: Shaped, values: Shaped) -> ShapeError:
    """Values whose batch or heads are not those of the keys."""
    return _misfit(
        "`values` have another batch or other heads than `keys`.",
        "All axes but the last must be equal: split values into heads as keys were.",
        keys=keys,
        values=values,
    )


def rows_do_not_fit(expected: Sequence[int], rows: Shaped) -> ShapeError:
    """Rows that are to flow back through the transposed matrix, and are not one for each query."""
    return ShapeError(
        f"`u` has shape {shape_of(rows)}; the product with the transposed weights needs {tuple(expected)}.\n"
        "Give one row for each query, with the head and batch axes of the attention."
    )


def mask_shape(mask: Shaped, attention: Shaped) -> OptionError:
    """A dense mask that does not fit the attention."""
    came = f"`mask` of shape {shape_of(mask)} does not fit attention of shape {shape_of(attention)}."
    fix = "Each axis has full size or 1; a mask of padding alone, (batch, key), is mask[:, None, None, :]."
    return OptionError(message(came, fix, mask=mask, attention=attention))


def bias_shape(bias: Shaped, attention: Shaped) -> OptionError:
    """A dense bias that does not fit the attention."""
    came = f"`bias` of shape {shape_of(bias)} does not fit attention of shape {shape_of(attention)}."
    fix = "Each axis has full size or 1, as in (head, query, key) or (batch, 1, 1, key)."
    return OptionError(message(came, fix, bias=bias, attention=attention))


def mask_axes(mask: Shaped) -> OptionError:
    """A dense mask with too few or too many axes."""
    return OptionError(
        f"`allowed` got shape {shape_of(mask)}; expected (query, key), head and batch in front where there are any.\n"
        "A mask of padding alone, (batch, key), is mask[:, None, None, :]."
    )


def bias_heads(name: str, came: int, heads: int) -> OptionError:
    """A lazy bias made for another number of heads."""
    return OptionError(f"`{name}` are for {count(came, 'head')}, the attention has {heads}.\nGive one for each head.")


def sinks_shape(sinks: Shaped, heads: int) -> OptionError:
    """Not one sink for each head."""
    return OptionError(
        f"`sinks` have shape {shape_of(sinks)}; expected ({heads},), one logit for each head.\n"
        "A logit that all heads share is np.full(heads, logit)."
    )


# Types


def unsupported_dtype(name: str, dtype: object) -> TypeProblem:
    """Numbers that attention is not computed with."""
    kind = type_name(dtype)
    if "complex" in kind:
        fix = "Softmax has no order to work with on complex numbers: take the real part or the magnitude first."
    elif kind == "object":
        fix = "An object array holds Python objects, often rows of unequal length: check them, then .astype('float32')."
    else:
        convert = "float()" if str(dtype).startswith("torch.") else "astype('float32')"
        fix = f"Convert first, as in {name}.{convert}."
    return TypeProblem(f"`{name}` are of type {kind}; expected float16, bfloat16, float32 or float64.\n{fix}")


def dtypes_differ(**arrays: Any) -> TypeProblem:
    """Arrays of several floating types."""
    came = ", ".join(f"`{name}` are {type_name(array.dtype)}" for name, array in arrays.items())
    return TypeProblem(f"{came}.\nAll arrays of one attention have the same type: convert one of them.")


def families_mixed(**arrays: object) -> TypeProblem:
    """NumPy arrays together with PyTorch tensors."""
    came = ", ".join(f"`{name}` are {kind_of(array)}" for name, array in arrays.items())
    return TypeProblem(
        f"{came}.\nAll arrays of one attention come from one library: use torch.from_numpy(array) or tensor.numpy()."
    )


def not_an_array(name: str, thing: object) -> TypeProblem:
    """Something that is neither a NumPy array nor a PyTorch tensor."""
    return TypeProblem(
        f"`{name}` are {kind_of(thing)}; expected a NumPy array or a PyTorch tensor.\n"
        f"For nested lists, numpy.asarray({name}, dtype='float32') makes one."
    )


def devices_differ(**arrays: Any) -> OptionError:
    """Tensors on several devices."""
    came = ", ".join(f"`{name}` are on {array.device}" for name, array in arrays.items())
    return OptionError(f"{came}.\nAll arrays of one attention are on the same device: move them with .to(device).")


# Options


def option(name: str, came: object, expected: str, fix: str = "") -> OptionError:
    """Any option: what came, what was expected, the likely fix."""
    return OptionError(f"`{name}` is {shown(came)}; expected {expected}." + (f"\n{fix}" if fix else ""))


def scale_not_finite(scale: object) -> OptionError:
    """A scale that makes every score NaN or infinite."""
    fix = "Leave it out for 1 / √head_dim, or check what it was divided by."
    return option("scale", scale, "a finite number", fix)


def bad_softcap(softcap: object) -> OptionError:
    """A soft cap that is not a positive number."""
    fix = "It bounds the scaled scores to ±softcap (Gemma 2 uses 50); None is no cap."
    return option("softcap", softcap, "a positive finite number, or None", fix)


def bad_name(name: str, came: object, known: Iterable[str]) -> OptionError:
    """A word that is not one of a few, such as a statistic, a similarity or a pool.

    >>> print(bad_name("statistics", "entrophy", ("entropy", "peak")))
    `statistics` is 'entrophy'; expected 'entropy' or 'peak'.
    Did you mean 'entropy'?
    """
    known = list(known)
    words = [repr(word) for word in known]
    expected = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    return option(name, came, expected, did_you_mean(str(came), known).strip())


def bad_statistic(came: object, known: Iterable[str]) -> OptionError:
    """A statistic that does not exist."""
    return bad_name("statistics", came, known)


def not_a_mask(came: object) -> TypeProblem:
    """Something else where a mask belongs.

    >>> from regard.masks import causal
    >>> print(not_a_mask(causal))
    `mask` is the function causal; expected a mask.
    Call it: causal().
    """
    if callable(came):
        name = getattr(came, "__name__", "function")
        fix = f"A function of positions becomes one: regard.masks.where({name})."
        if str(getattr(came, "__module__", "")).startswith("regard.masks"):
            fix = f"Call it: {name}({'' if name == 'causal' else '…'})."
        return TypeProblem(f"`mask` is the function {name}; expected a mask.\n{fix}")
    return TypeProblem(
        f"`mask` is {kind_of(came)}; expected a mask such as causal() & window(128).\n"
        "A boolean array, True where a query may see a key, becomes one: regard.masks.allowed(array)."
    )


def mask_has_no_truth() -> TypeProblem:
    """A mask where Python wants true or false."""
    return TypeProblem("A mask is neither true nor false.\nCombine masks with `&`, `|`, `~`, not `and`, `or`, `not`.")


def mask_not_boolean(dtype: object) -> OptionError:
    """Numbers where booleans belong."""
    return OptionError(
        f"`allowed` got an array of type {type_name(dtype)}; expected booleans, True where a query may see a key.\n"
        "For ones and zeros write array != 0; numbers to add to the scores (0 and -inf) are a bias: bias=array."
    )


def mask_function_result(dtype: object) -> OptionError:
    """A function of positions that does not give booleans."""
    return OptionError(
        f"The function of `where` gave type {type_name(dtype)}; expected booleans.\n"
        "Compare, as in `key <= query`, and combine with `&` and `|`."
    )


def not_per_sequence(name: str, came: int, batch: int) -> OptionError:
    """Not one number for each sequence."""
    return OptionError(
        f"`{name}` are for {count(came, 'sequence')}, the batch holds {batch}.\n"
        "Give one for each sequence, or one for all."
    )


def ids_too_short(ids: Shaped, keys: int, positions: Any) -> OptionError:
    """Documents that are not known for every query and key."""
    lowest, highest = (int(positions.min()), int(positions.max())) if positions.size else (0, -1)
    return OptionError(
        f"`ids` name the documents of {count(shape_of(ids)[-1], 'position')}; "
        f"expected those of {count(keys, 'key')} and of queries at positions {lowest} to {highest}.\n"
        "Give the id of every position, past ones included, and check `offset`."
    )


def offset_needed(queries: int, keys: int) -> OptionError:
    """Query and key counts differ, and something depends on where the queries stand.

    >>> print(offset_needed(2, 5))
    `offset` is not given, and 2 queries with 5 keys can stand in two ways.
      offset=0  top-left: query 0 stands at key 0, as with is_causal in PyTorch
      offset=3  bottom-right: the last query stands at the last key, as in FlashAttention and decoding
    This mask or statistic depends on the positions of the queries: say which one you mean.
    """
    last = f"offset={keys - queries}"
    return OptionError(
        f"`offset` is not given, and {count(queries, 'query')} with {count(keys, 'key')} can stand in two ways.\n"
        f"  {'offset=0'.ljust(len(last))}  top-left: query 0 stands at key 0, as with is_causal in PyTorch\n"
        f"  {last.ljust(8)}  bottom-right: the last query stands at the last key, as in FlashAttention and decoding\n"
        "This mask or statistic depends on the positions of the queries: say which one you mean."
    )


def bad_offset(offset: object, batch: int) -> OptionError:
    """An offset that is neither one number nor one for each sequence."""
    fix = "It is the position of the first query: the number of keys that came before it."
    return option("offset", offset, f"an integer, or integers of shape ({batch},), one for each sequence", fix)


def index_out_of_range(axis: str, index: object, count: int) -> OutOfRange:
    """An index past the end of an axis, for example a head that is not there."""
    return OutOfRange(f"{axis} {index} is out of range: there {there_are(count, axis)}, counted from 0.")


def too_many_indices(came: int, axes: int) -> OutOfRange:
    """More indices than axes."""
    return OutOfRange(f"{count(came, 'index')} for an attention of {count(axes, 'axis')}: leave {came - axes} out.")


def bad_index(index: object) -> OutOfRange:
    """An index of a kind that the weights do not take."""
    return OutOfRange(
        f"{shown(index)} is no index; expected integers, slices, `...` and integer arrays, as for a NumPy array.\n"
        "For anything else, build the matrix first: A.dense()[...]."
    )


def bad_edges(name: str, edges: object, count: int) -> OptionError:
    """Cell edges of a map that do not rise from inside the matrix to inside the matrix."""
    fix = "Cell c covers edges[c] up to edges[c + 1], so n cells have n + 1 edges."
    return option(name, edges, f"rising integers from 0 up to at most {count}, at least two", fix)


def bad_map_shape(shape: object, region: tuple[int, int]) -> OptionError:
    """More cells than weights, or none."""
    fix = "A cell covers at least one weight: ask for a smaller shape or a larger region."
    return option("shape", shape, f"two integers from 1 up to {region[0]} rows and {region[1]} columns", fix)


# Memory, state and limits


def too_large_to_build(needed: int, limit: int) -> TooLarge:
    """A matrix past the limit.

    >>> print(too_large_to_build(32 * 32768**2 * 4, 2**30))
    The dense matrix would take 128 GiB, the limit is 1 GiB.
    Look at a part of it (A[..., 0, :], A.pooled((512, 512)), A.top(8)), or allow it: dense(limit=137438953472).
    """
    return TooLarge(
        f"The dense matrix would take {size_in_bytes(needed)}, the limit is {size_in_bytes(limit)}.\n"
        f"Look at a part of it (A[..., 0, :], A.pooled((512, 512)), A.top(8)), or allow it: dense(limit={needed})."
    )


def unsupported(what: str, instead: str) -> Unsupported:
    """Something Regard does not do, and what to do instead."""
    return Unsupported(f"{what} is not supported.\n{instead}")


def missing_package(what: str, *packages: str, instead: str = "") -> Unsupported:
    """A package that something needs and that is not installed, with the command that installs it here.

    >>> print(missing_package("Reading text", "tokenizers"))
    Reading text needs the package tokenizers, which is not installed.
    Install it: ...python... -m pip install tokenizers
    """
    several = len(packages) > 1
    names = f"the packages {' and '.join(packages)}" if several else f"the package {packages[0]}"
    command = f"{shlex.quote(sys.executable or 'python')} -m pip install {' '.join(packages)}"
    return Unsupported(
        f"{what} needs {names}, which {'are' if several else 'is'} not installed.\n"
        f"Install {'them' if several else 'it'}: {command}" + (f"\n{instead}" if instead else "")
    )


def _misfit(came: str, fix: str, **arrays: Shaped) -> ShapeError:
    return ShapeError(message(came, fix, **arrays))
