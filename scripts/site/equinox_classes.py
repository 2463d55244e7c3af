"""Extension of griffe: Equinox modules are dataclasses, although no decorator says so."""

import griffe

# libraries whose classes are Equinox modules
_LIBRARIES = ("equinox.", "diffrax.", "optimistix.")
_NO_ARGUMENTS = ("ClassVar", "AbstractVar", "AbstractClassVar")


class EquinoxClasses(griffe.Extension):
    """Gives modules of Equinox the decorator of a dataclass, from which griffe makes their signature."""

    def on_package(self, *, pkg: griffe.Module, **kwargs) -> None:
        """Mark all classes of a package that has been loaded."""
        for found in _classes(pkg):
            if "__init__" not in found.members and _is_module(found):
                _mark(found)


def _classes(inside: griffe.Module | griffe.Class):
    for member in inside.members.values():
        if member.is_alias:
            continue
        if isinstance(member, griffe.Class):
            yield member
        if isinstance(member, griffe.Class | griffe.Module):
            yield from _classes(member)


def _is_module(found: griffe.Class) -> bool:
    paths = [base if isinstance(base, str) else base.canonical_path for base in found.bases]
    return any(p.startswith(_LIBRARIES) for p in paths) or any(
        _is_module(base) for base in found.resolved_bases if isinstance(base, griffe.Class)
    )


def _mark(found: griffe.Class) -> None:
    decorator = griffe.ExprName("dataclasses.dataclass")
    found.decorators.append(griffe.Decorator(decorator, lineno=found.lineno, endlineno=found.lineno))
    for member in found.members.values():
        if not isinstance(member, griffe.Attribute):
            continue
        # a variable of the class, and what a subclass must have, are no arguments
        if _declares(member):
            member.labels.add("class-attribute")
            member.labels.discard("instance-attribute")
        if isinstance(value := member.value, griffe.ExprCall) and value.canonical_path == "equinox.field":
            member.value = _default(value)


def _declares(attribute: griffe.Attribute) -> bool:
    note = attribute.annotation
    return note is not None and str(note).partition("[")[0].rpartition(".")[2] in _NO_ARGUMENTS


def _default(call: griffe.ExprCall) -> str | griffe.Expr | None:
    """The default among the arguments of `equinox.field`."""
    named = (argument for argument in call.arguments if isinstance(argument, griffe.ExprKeyword))
    return next((argument.value for argument in named if argument.name == "default"), None)
