"""Whether a JSON value is of a type: of typing's, a TypedDict, or a pydantic model. Keys that the type does not know are wrong too."""

import collections.abc
import functools
import inspect
import types
import typing

import pydantic
import typing_extensions


class Wrong(Exception):
    """What is wrong, and where."""


def check(value, kind, at="$"):
    """Raises Wrong unless the value is of this type."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in (typing.Any, object):
        return
    if kind is None or kind is type(None):
        return expect(value is None, at, value, "null")
    if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired, typing.Required, typing.NotRequired):
        return check(value, args[0], at)
    if origin in (typing.Union, types.UnionType):
        return one_of(value, args, at)
    if origin in (typing.Literal, typing_extensions.Literal):
        return expect(any(value == word and type(value) is type(word) for word in args), at, value, f"one of {args}")
    if origin in (dict, collections.abc.Mapping):
        expect(isinstance(value, dict), at, value, "an object")
        for key, member in value.items():
            check(member, args[1], f"{at}.{key}")
        return
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence) or getattr(origin, "__name__", "") == "SequenceNotStr":
        expect(isinstance(value, list), at, value, "an array")
        for index, element in enumerate(value):
            check(element, args[0], f"{at}[{index}]")
        return
    if kind is float:
        return expect(isinstance(value, (int, float)) and not isinstance(value, bool), at, value, "a number")
    if kind in (str, bool, int):
        return expect(type(value) is kind, at, value, kind.__name__)
    if kind is dict:
        return expect(isinstance(value, dict), at, value, "an object")
    if typing_extensions.is_typeddict(kind):
        return members(value, hints(kind), required(kind), kind.__name__, at)
    if inspect.isclass(kind) and issubclass(kind, pydantic.BaseModel):
        return members(value, *fields(kind), kind.__name__, at)
    raise Wrong(f"{at}: {short(value)} is no {kind}")


def arguments(value, function, at="$"):
    """Checks an object against a function's keyword arguments."""
    parameters = inspect.signature(function).parameters
    known = {
        name: kind for name, kind in hints(function).items() if name in parameters and name not in ("self", "return", "request_options")
    }
    needed = {name for name in known if parameters[name].default is inspect.Parameter.empty}
    members(value, known, needed, function.__name__, at)


def members(value, known, needed, name, at):
    expect(isinstance(value, dict), at, value, "an object")
    for key, member in value.items():
        if key not in known:
            raise Wrong(f"{at}.{key}: {name} has no such member")
        check(member, known[key], f"{at}.{key}")
    if missing := set(needed) - set(value):
        raise Wrong(f"{at}: {name} needs {sorted(missing)}")


def one_of(value, kinds, at):
    """Of several types, the one whose literal `type` or `role` is the value's says what is wrong."""
    if any(typing.get_origin(kind) is typing.Literal for kind in kinds):
        # Words that a package knows, and any other for the future's sake: only those that it knows.
        kinds = [kind for kind in kinds if kind is not typing.Any]
    whys = []
    for kind in kinds:
        try:
            return check(value, kind, at)
        except Wrong as why:
            whys.append((kind, why))
    for kind, why in whys:
        if isinstance(value, dict) and any(said(kind, tag) == (value[tag],) for tag in ("type", "role") if tag in value):
            raise why
    deepest = max((why for _, why in whys), key=lambda why: str(why).partition(":")[0].count("."))
    raise Wrong(f"{deepest} (nothing else of {len(kinds)} types fits either)")


def said(kind, tag):
    """The words that a tag of this type may have."""
    try:
        known = hints(kind) if typing_extensions.is_typeddict(kind) else fields(kind)[0]
    except (AttributeError, TypeError):
        return None
    kind = known.get(tag)
    while typing.get_origin(kind) in (typing.Annotated, typing_extensions.Required, typing.Required):
        kind = typing.get_args(kind)[0]
    return typing.get_args(kind)


@functools.cache
def hints(kind):
    return typing_extensions.get_type_hints(kind, include_extras=True)


@functools.cache
def required(kind):
    # Where annotations are strings, the class itself does not know which of them say so.
    marked = {key for key, hint in hints(kind).items() if typing.get_origin(hint) in (typing.Required, typing_extensions.Required)}
    return marked | kind.__required_keys__


@functools.cache
def fields(model):
    known = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return known, frozenset(field.alias or name for name, field in model.model_fields.items() if field.is_required())


def expect(holds, at, value, what):
    if not holds:
        raise Wrong(f"{at}: {short(value)} is not {what}")


def short(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
