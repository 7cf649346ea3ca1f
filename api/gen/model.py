"""The API description, read into objects."""

import re
from dataclasses import dataclass, field

HANDLES = {
    "COMM": "MPI_Comm", "GROUP": "MPI_Group", "TYPE": "MPI_Datatype", "DATA": "MPI_Datatype", "OP": "MPI_Op",
    "REQUEST": "MPI_Request", "MESSAGE": "MPI_Message", "INFO": "MPI_Info", "ERRH": "MPI_Errhandler",
    "SESSION": "MPI_Session", "WIN": "MPI_Win", "FILE": "MPI_File",
}


@dataclass
class Kind:
    name: str
    narrow: str
    large: str

    @property
    def poly(self):
        return self.narrow != self.large


@dataclass
class Param:
    name: str
    kind: str
    direction: str = "in"
    nullable: bool = False
    unchecked: bool = False
    function: str = ""
    length: list = None  # None: no array; [""]: an array of a length that the other arguments imply
    flags: set = field(default_factory=set)

    @property
    def array(self):
        return self.length is not None

    def c_type(self, kinds, large):
        """C declaration of the parameter."""
        name, kind = self.name, kinds[self.kind]
        base = kind.large if large else kind.narrow
        const = "const " if "const" in self.flags else ""
        out = self.direction != "in"
        if self.kind == "VARARGS":
            return "..."
        if self.kind == "FN":
            function = self.function
            poly = function in ("MPI_User_function", "MPI_Datarep_conversion_function")
            by_value = function.startswith("MPI_T_")
            return f"{function}{'_c' if large and poly else ''}{' ' if by_value else ' *'}{name}"
        if self.kind in ("STRING", "KEYSTR", "VALSTR", "STRINGTAG"):
            return f"{const}char *{name}"
        if self.kind == "STRINGS":
            return f"char *{name}[]"
        if self.kind == "STRINGS2":
            return f"char **{name}[]"
        if self.kind == "ARGV":
            return f"char ***{name}"
        if base == "void*":
            return f"{const}void *{name}"
        if self.kind in ("STATUS", "FSTATUS", "F08STATUS"):
            if self.array and self.direction != "in":
                return f"{base} {name}[]"
            return f"{const}{base} *{name}"
        if self.kind == "WEIGHT":
            return f"{const}int *{name}"  # no array: compilers take MPI_UNWEIGHTED for an empty one
        if self.array:
            tail = "[][3]" if len(self.length) == 2 else "[]"
            return f"{const}{base} {name}{tail}"
        return f"{const}{base} {'*' if out or 'ptr' in self.flags else ''}{name}"


@dataclass
class Function:
    name: str
    chapter: str
    has_large: bool
    params: list
    returns: str
    attributes: dict

    def forms(self):
        """(C name, is it the large-count form) of each form."""
        yield self.name, False
        if self.has_large:
            yield self.name + "_c", True

    def parameters(self, large):
        return [p for p in self.params if large or "large" not in p.flags]

    def return_type(self, kinds):
        return "int" if not self.returns else kinds[self.returns].narrow

    @property
    def in_c(self):
        return "c" in self.attributes.get("lang", "cf8")

    @property
    def later(self):
        return self.attributes.get("later")


@dataclass
class Constant:
    name: str
    value: int
    type: str
    group: str


@dataclass
class Api:
    kinds: dict
    constants: list
    functions: list
    callbacks: list
    bodies: dict  # chapter -> file with the hand-written bodies

    def abi_functions(self):
        """What the library exports under the standard ABI: all but conversions for Fortran."""
        return [f for f in self.functions if f.in_c and f.chapter != "fortran"]

    def value(self, name):
        return next(c.value for c in self.constants if c.name == name)


PARAM = re.compile(r"(<>|>)?(\w+):([A-Z0-9]+)([?*])?(?:=(\w+))?(?:\[([\w,]*)\])?((?: \w+)*)$")


def parse_param(text):
    m = PARAM.match(text)
    if not m:
        raise SyntaxError(f"parameter {text!r}")
    direction = {None: "in", ">": "out", "<>": "inout"}[m[1]]
    length = None if m[6] is None else m[6].split(",")
    return Param(m[2], m[3], direction, m[4] == "?", m[4] == "*", m[5] or "", length, set(m[7].split()))


def parse(path):
    api = Api({}, [], [], [], {})
    chapter = group = section = ""
    with open(path) as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip()
            if section == "constants" and line.startswith("# "):
                group = line[2:]
            text = line.split("#")[0].strip()
            if not text:
                continue
            try:
                word = text.split()
                if word[0] == "section":
                    section = word[1]
                elif word[0] == "kind":
                    api.kinds[word[1]] = Kind(word[1], word[2], word[3] if len(word) > 3 else word[2])
                elif word[0] == "const":
                    api.constants.append(Constant(word[1], int(word[2], 0), word[3], group))
                elif word[0] == "chapter":
                    chapter = word[1]
                    if len(word) > 2:
                        api.bodies[chapter] = word[2]
                else:
                    function = parse_function(text, chapter)
                    (api.callbacks if chapter == "callback" else api.functions).append(function)
            except Exception as error:
                raise SystemExit(f"{path}:{number}: {error}\n  {line}") from error
    api.functions.sort(key=lambda f: f.name.lower())
    return api


def parse_function(text, chapter):
    head, _, attributes = text.partition(" ; ")
    m = re.match(r"(\w+)(\*?)\((.*)\)(?: -> (\w+))?$", head)
    if not m:
        raise SyntaxError("neither a section, kind, const, chapter nor a function")
    params = [parse_param(p) for p in re.split(r", ", m[3])] if m[3] else []
    values = dict((a.split("=") + [True])[:2] for a in attributes.split())
    return Function(m[1], chapter, bool(m[2]), params, m[4] or "", values)
