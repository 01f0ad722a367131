"""Parts of a kernel with some of their functions replaced, for tests that look inside."""

import dataclasses

from ewsg_jax._module import module


def altered(part, **replacements):
    """The part with functions (without `self`) in the place of methods, and values in that of properties."""

    def as_member(value):
        return (lambda self, *a, **k: value(*a, **k)) if callable(value) else property(lambda self: value)

    members = {name: as_member(value) for name, value in replacements.items()}
    cls = module(type(f"Altered{type(part).__name__}", (type(part),), members | {"__annotations__": {}}))
    return cls(**{field.name: getattr(part, field.name) for field in dataclasses.fields(part)})
