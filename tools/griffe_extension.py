"""What the site's page of the Python API needs to know beyond the sources: used by mkdocstrings.

The functions of `commands/api.py` have the fields of a request as their arguments; a wrapper makes their signature and
docstring when it runs, so both are taken from the function itself. Docstrings describe arguments in lines such as
"size, std: of the population; seed: of the run", which become a list. A member without a docstring is described by the
comment on its line.
"""

import importlib
import inspect
import re
from typing import Any

import griffe

KINDS = {kind: griffe.ParameterKind(kind.description) for kind in inspect._ParameterKind}


class Described(griffe.Extension):
    """Gives functions their real signatures, and docstrings that Markdown renders."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Take the signature of a wrapped function from the function itself, and list the arguments."""
        if any(str(decorator.value).startswith("function(") for decorator in func.decorators):
            actual = getattr(importlib.import_module(func.module.path), func.name)
            signature = inspect.signature(actual)
            func.parameters = griffe.Parameters(*map(parameter, signature.parameters.values()))
            func.returns = annotation(signature.return_annotation)
            func.docstring = griffe.Docstring(inspect.getdoc(actual) or "", parent=func)
        describe(func, [each.name for each in func.parameters])

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """List the arguments of a class."""
        describe(cls, [each.name for each in cls.parameters])

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Describe an attribute by the comment on its line."""
        describe(attr, [])


def parameter(found: inspect.Parameter) -> griffe.Parameter:
    """Return a parameter as griffe has it."""
    default = None if found.default is inspect.Parameter.empty else repr(found.default)
    kind, given = KINDS[found.kind], annotation(found.annotation)
    return griffe.Parameter(found.name, annotation=given, kind=kind, default=default)


def annotation(found: Any) -> str | None:
    """Return the type of an annotation, without the modules of the standard library."""
    if found is inspect.Parameter.empty:
        return None
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    return re.sub(r"\b(?:collections\.abc|typing|os|pathlib)\.", "", text).strip("'")


def describe(found: griffe.Object, names: list[str]) -> None:
    """Give an object a docstring with a list of its arguments, or the comment on its line."""
    if found.docstring:
        found.docstring.value = as_list(found.docstring.value, names)
    elif comment := re.search(rf"\b{found.name}\b.*?  # (.+)", found.source.partition('"""')[0]):
        text = comment[1][0].upper() + comment[1][1:]
        found.docstring = griffe.Docstring(f"{text}." if text[-1] not in ".)]" else text, parent=found)


def as_list(text: str, names: list[str]) -> str:
    """Return a docstring whose lines "name: ..." and "name, name: ..." are a list; `names`: of the arguments."""
    name = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"\b\B"
    first = re.compile(rf"^(?=(?:{name})(?:, (?:{name}))*: )", re.MULTILINE)
    parts = text.split("\n\n")
    for number, part in enumerate(parts):
        if first.match(part):
            lines = re.sub(rf"; (?=(?:{name}): )", "\n", re.sub(r"\n\s+", " ", part)).split("\n")
            items = (line.partition(": ") for line in lines)
            parts[number] = "\n".join(f"- `{named.replace(', ', '`, `')}`: {meaning}" for named, _, meaning in items)
    return "\n\n".join(parts)
