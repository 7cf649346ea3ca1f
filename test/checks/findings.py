"""What Python checks find wrong: they say what they want, go on, and print `failures` at their end."""

failures = []


def want(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r} instead of {expected!r}")


def has(what, text, part):
    if part not in text:
        failures.append(f"{what}: no {part!r} in {text!r}")
