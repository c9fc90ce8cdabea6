"""Random templates: a grammar of statements and expressions over a fixed set of variables. Most of them mean nothing;
half of them render, and either way two engines must agree."""
import random

VARIABLES = {
    "i": 3, "j": -2, "z": 0, "f": 2.5, "g": -0.125, "h": 1e20, "t": True, "u": False, "n": None,
    "s": "Hello World", "p": "  spaced\tout \n", "e": "", "q": "héß Ñ ﬁ😀", "c": "a,b,,c", "m": "line1\nline2\r\n\nline4",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "lm": [1, "1", 1.0, None, True], "le": [], "ll": [[1, 2], [3], []],
    "d": {"b": 1, "A": 2, "items": 3, "k": {"x": [1, {"y": "z"}]}}, "de": {}, "dn": {"x": None, "y": 2.0, "z": ""},
    "r": [{"n": "x", "v": 2, "o": {"p": 1}}, {"n": "Y", "v": 1}, {"n": "z", "v": 2, "w": True}],
    "messages": [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": None,
                 "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1, "b": [None, "ü"]}}}]},
                 {"role": "tool", "content": "{\"x\": 1}"}],
}
NAMES = [*VARIABLES, "missing"]
STRINGS = ["''", "'a'", "'A b'", "','", "' '", "'é'", "'\\n'", "'x' 'y'", "\"it's\"", "'<&>'", "'10'", "'-3.5'", "'%s'",
           "'{}'", "'n'", "'v'", "'l'", "'o.p'", "'\\t x\\u00a0'", "'aXbXc'", "'X'", "'0x1f'", "'%d-%s'", "'{0}{1!r}'"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "1.5", "-2.0", "0.1", "1e3", "100", "1_000", "0x10", "2.5", "3.5"]
LITERALS = ["none", "true", "false", "None", "True", "[]", "{}", "()", "[1, 2, 3]", "['a', 'b']", "(1, 'x')",
            "{'a': 1, 'b': 2}", "[none, true]", "range(3)", "range(5, 0, -2)", "namespace(a=1)", "dict(x=1)"]
FILTERS = {
    "abs": [], "attr": ["S"], "batch": ["N", "E?"], "capitalize": [], "center": ["N?"], "count": [], "d": ["E?", "E?"],
    "default": ["E?", "E?"], "dictsort": ["E?"], "e": [], "escape": [], "filesizeformat": ["E?"], "first": [], "float": ["E?"],
    "forceescape": [], "format": ["E", "E?"], "groupby": ["S"], "indent": ["N?", "E?", "E?"], "int": ["E?"], "join": ["S?"],
    "last": [], "length": [], "list": [], "lower": [], "items": [], "min": [], "max": [], "reject": ["T?"], "rejectattr": ["S", "T?"],
    "replace": ["S", "S", "N?"], "reverse": [], "round": ["N?"], "safe": [], "select": ["T?"], "selectattr": ["S", "T?"],
    "slice": ["N"], "sort": ["E?", "E?"], "string": [], "striptags": [], "sum": [], "title": [], "trim": ["S?"],
    "truncate": ["N?", "E?"], "unique": [], "upper": [], "urlencode": [], "wordcount": [], "xmlattr": [], "tojson": [],
    "map": ["F"],
}
NAMED = {"tojson": ["indent=N", "sort_keys=E", "ensure_ascii=E"], "sort": ["attribute=S", "reverse=E", "case_sensitive=E"],
         "map": ["attribute=S", "attribute=S, default=E"], "join": ["attribute=S", "d=S"], "dictsort": ["by='value'", "reverse=E", "case_sensitive=E"],
         "min": ["attribute=S"], "max": ["attribute=S", "case_sensitive=E"], "sum": ["attribute=S", "start=E"], "unique": ["attribute=S", "case_sensitive=E"],
         "groupby": ["attribute=S, default=E", "attribute=S, case_sensitive=E"], "round": ["method='ceil'", "1, 'floor'", "precision=N"], "int": ["base=16", "default=E"],
         "indent": ["width=S", "first=E", "blank=E"], "batch": ["2, fill_with=E"], "slice": ["2, fill_with=E"], "default": ["boolean=E"],
         "trim": ["chars=S"], "truncate": ["length=N, leeway=N", "5, end=S"], "replace": ["old=S, new=S"], "format": ["a=E"]}
TESTS = {"odd": 0, "even": 0, "divisibleby": 1, "defined": 0, "undefined": 0, "none": 0, "boolean": 0, "false": 0, "true": 0, "integer": 0,
         "float": 0, "lower": 0, "upper": 0, "string": 0, "mapping": 0, "number": 0, "sequence": 0, "iterable": 0, "callable": 0,
         "escaped": 0, "in": 1, "eq": 1, "equalto": 1, "ne": 1, "gt": 1, "ge": 1, "lt": 1, "le": 1, "lessthan": 1, "greaterthan": 1, "filter": 0, "test": 0}
METHODS = ["upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()", "lstrip(S)", "rstrip(S)", "strip(S)", "split()", "split(S)",
           "split(S, N)", "rsplit(S, N)", "rsplit(none, N)", "splitlines()", "splitlines(true)", "startswith(S)", "endswith(S)", "replace(S, S)", "replace(S, S, N)",
           "find(S)", "rfind(S)", "index(S)", "count(E)", "join(E)", "format(E, E)", "partition(S)", "rpartition(S)", "zfill(N)", "ljust(N)", "rjust(N, S)",
           "center(N, S)", "isdigit()", "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()", "istitle()", "removeprefix(S)", "removesuffix(S)",
           "items()", "keys()", "values()", "get(E)", "get(S, E)", "index(E)", "count(E, N)", "append(E)", "copy()", "expandtabs(N)", "casefold()", "find(S, N, N)",
           "startswith((S, S))", "update(E)", "pop()", "fromkeys(E, E)"]
ATTRIBUTES = ["a", "b", "k", "x", "items", "n", "v", "role", "content", "missing", "tool_calls", "real", "0", "k.x", "o"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "+", "~", "=="]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.locals = []
        self.macros = []
        self.loops = 0
        self.tame = False

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, probability):
        return self.random.random() < probability

    def expand(self, pattern, depth):
        """A pattern's letters become expressions: S string-like, N number-like, E anything."""
        out, i = "", 0
        while i < len(pattern):
            letter = pattern[i]
            alone = letter in "SNE" and not (i and pattern[i - 1].isalnum()) and not pattern[i + 1:i + 2].isalnum()
            out += self.typed(letter, depth) if alone else letter
            i += 1
        return out

    def typed(self, kind, depth):
        if self.chance(0.12):
            return self.expression(depth - 1)
        if kind == "S":
            return self.pick(STRINGS)
        if kind == "N":
            return self.pick(["0", "1", "2", "3", "5", "-1", "8", "20"])
        return self.expression(depth - 1)

    def primary(self):
        kind = self.random.random()
        if kind < 0.45:
            return self.pick(NAMES)
        if kind < 0.55 and self.locals:
            return self.pick(self.locals)
        if kind < 0.7:
            return self.pick(STRINGS)
        if kind < 0.82:
            return self.pick(NUMBERS)
        if kind < 0.86 and self.loops:
            return "loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "depth", "previtem", "nextitem", "cycle(1, 2)", "changed(i)"])
        if kind < 0.9 and self.macros:
            return self.macro_call(1)
        return self.pick(LITERALS)

    def macro_call(self, depth):
        name = self.pick(self.macros)
        arguments = [self.expression(depth - 1) for _ in range(self.random.randrange(3))]
        if self.chance(0.2):
            arguments.append("b=" + self.expression(depth - 1))
        return f"{name}({', '.join(arguments)})"

    def filter(self, depth):
        name = self.pick(list(FILTERS))
        if name in NAMED and self.chance(0.35):
            return f"{name}({self.expand(self.pick(NAMED[name]), depth)})"
        arguments = []
        for parameter in FILTERS[name]:
            if parameter.endswith("?") and self.chance(0.6):
                break
            if parameter[0] == "T":
                test = self.pick(list(TESTS))
                arguments.append(f"'{test}'")
                if TESTS[test]:
                    arguments.append(self.expression(depth - 1))
            elif parameter[0] == "F":
                arguments.append("'" + self.pick(["upper", "string", "int", "trim", "length", "first", "tojson", "list", "abs", "title", "sort", "default"]) + "'")
            else:
                arguments.append(self.typed(parameter[0], depth))
        return name + (f"({', '.join(arguments)})" if arguments or self.chance(0.1) else "")

    def tame_expression(self, depth):
        """Expressions that seldom fail, so that the statements around them are reached."""
        value = self.pick([*self.locals, *NAMES, *STRINGS, *NUMBERS, *LITERALS])
        if depth > 0 and self.macros and self.chance(0.15):
            value = self.macro_call(depth - 1)
        if depth > 0 and self.loops and self.chance(0.15):
            value = "loop." + self.pick(["index", "first", "last", "length", "revindex0", "previtem", "nextitem"])
        kind = self.random.random()
        if depth <= 0 or kind < 0.3:
            return value
        other = lambda: self.tame_expression(depth - 1)
        if kind < 0.5:
            return f"{value} ~ {other()}"
        if kind < 0.7:
            return f"({value} | " + self.pick(["string", "default('z')", "default(1, true)", "string | length", "upper", "title", "string | trim | lower", "string | replace('a', 'é')", "wordcount", "string | indent(2)"]) + ")"
        if kind < 0.8:
            return f"({value} if {other()} else {other()})"
        if kind < 0.9:
            return f"({value} {self.pick(['and', 'or', '==', '!='])} {other()})"
        return f"({value} is {self.pick(['', 'not '])}{self.pick(['defined', 'string', 'none', 'mapping', 'iterable', 'number', 'true'])})"

    def expression(self, depth):
        if self.tame and self.chance(0.97):
            return self.tame_expression(depth)
        if depth <= 0:
            return self.primary()
        kind = self.random.random()
        inner = lambda: self.expression(depth - 1)
        if kind < 0.12:
            return self.primary()
        if kind < 0.34:
            base = inner()
            base = base if base.isalnum() or self.chance(0.5) else f"({base})"
            return base + "".join(" | " + self.filter(depth) for _ in range(1 + self.chance(0.3)))
        if kind < 0.5:
            left, right = inner(), inner()
            text = f"{left} {self.pick(OPERATORS)} {right}"
            return f"({text})" if self.chance(0.6) else text
        if kind < 0.62:
            return f"{self.wrapped(depth)}.{self.expand(self.pick(METHODS), depth)}"
        if kind < 0.68:
            return f"{self.wrapped(depth)}.{self.pick(ATTRIBUTES)}"
        if kind < 0.74:
            key = self.pick(["0", "-1", "1", "'a'", "'b'", "'items'", "'role'", "'content'", inner()])
            return f"{self.wrapped(depth)}[{key}]"
        if kind < 0.79:
            bound = lambda: self.pick(["", "", "1", "-1", "2", "0", "-3", "10"])
            step = self.pick(["", "", ":", ":2", ":-1", ":-2"])
            return f"{self.pick(NAMES)}[{bound()}:{bound()}{step}]"
        if kind < 0.86:
            test = self.pick(list(TESTS))
            argument = f"({inner()})" if TESTS[test] else ""
            return f"{self.wrapped(depth)} is {self.pick(['', 'not '])}{test}{argument}"
        if kind < 0.9:
            return f"({inner()} if {inner()}" + (f" else {inner()})" if self.chance(0.7) else ")")
        if kind < 0.92:
            return f"not {inner()}"
        if kind < 0.94:
            return f"{self.pick('-+')}{self.wrapped(depth)}"
        if kind < 0.96:
            return f"[{inner()}, {inner()}]"
        if kind < 0.98:
            return f"{{'k': {inner()}, {self.pick(STRINGS)}: {inner()}}}"
        return f"({inner()}, {inner()})"

    def wrapped(self, depth):
        text = self.expression(depth - 1)
        return text if text.isalnum() and not text[0].isdigit() else f"({text})"

    def space(self):
        return self.pick(["", "", "", " ", "\n", "\n  ", "  \n", "\t", " x ", "text\n", "\n\n", "é\n ", "\r\n", "a  "])

    def tag(self, text):
        return "{%" + self.pick(["", "", "", "-", "+"]) + f" {text} " + self.pick(["", "", "", "-", "+"]) + "%}"

    def block(self, depth):
        marks, loops = (len(self.locals), len(self.macros)), self.loops
        text = self.body(depth)
        del self.locals[marks[0]:]
        del self.macros[marks[1]:]
        self.loops = loops
        return text

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.random.randrange(1, 4))) + self.space()

    def statement(self, depth):
        kind = self.random.random()
        if kind < 0.4 or depth <= 0:
            sign = self.pick(["", "", "", "-", "+"])
            return "{{" + sign + " " + self.expression(2) + " " + self.pick(["", "", "-"]) + "}}"
        if kind < 0.5:
            text = self.tag("if " + self.expression(2)) + self.block(depth - 1)
            if self.chance(0.3):
                text += self.tag("elif " + self.expression(1)) + self.block(depth - 1)
            if self.chance(0.4):
                text += self.tag("else") + self.block(depth - 1)
            return text + self.tag("endif")
        if kind < 0.64:
            return self.loop(depth)
        if kind < 0.76:
            name = self.pick(["a", "b", "x", "y", "ns"])
            self.locals.append(name)
            if self.chance(0.15):
                return self.tag(f"set {name}" + self.pick(["", " | upper", " | trim | title"])) + self.block(depth - 1) + self.tag("endset")
            if self.chance(0.15):
                return self.tag(f"set {name}, {self.pick(['a', 'y'])} = {self.expression(1)}, {self.expression(1)}")
            if self.chance(0.2):
                return self.tag("set ns = namespace(a=0, b='')") + self.tag(f"set ns.{self.pick('ab')} = {self.expression(1)}") + "{{ ns.a ~ ns.b }}"
            return self.tag(f"set {name} = {self.expression(2)}")
        if kind < 0.84:
            return self.macro(depth)
        if kind < 0.88:
            name = self.pick(["upper", "trim", "indent(3)", "replace('a', 'b') | title", "string"]) if self.tame else self.filter(1)
            return self.tag("filter " + name) + self.block(depth - 1) + self.tag("endfilter")
        if kind < 0.91:
            return self.tag(f"with a = {self.expression(1)}, x = a") + self.block(depth - 1) + self.tag("endwith")
        if kind < 0.93:
            return self.tag("generation") + self.block(depth - 1) + self.tag("endgeneration")
        if kind < 0.95:
            return "{#" + self.pick(["", "-", "+"]) + " note {{ " + self.pick(["", "-", "+"]) + "#}"
        if kind < 0.97:
            return self.tag("raw") + " {{ raw }} {% x \n" + self.tag("endraw")
        if self.loops:
            return self.tag("if " + self.expression(1)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        return self.space()

    def loop(self, depth):
        target = self.pick(["x", "y", "a", "k, v", "x"])
        source = self.pick(["l", "ls", "r", "messages", "d.items()", "d", "le", "s", "range(3)", "ll", "d | dictsort", "l | select('odd')", self.expression(1) if not self.tame else "r | map(attribute='v')"])
        condition = f" if {self.expression(1)}" if self.chance(0.2) else ""
        recursive = " recursive" if self.chance(0.05) else ""
        loops, marks = self.loops, len(self.locals)
        self.loops += 1
        self.locals += target.split(", ")
        text = self.tag(f"for {target} in {source}{condition}{recursive}") + self.block(depth - 1)
        if recursive:
            text += "{{ loop([]) }}"
        self.loops = loops
        del self.locals[marks:]
        if self.chance(0.25):
            text += self.tag("else") + self.block(depth - 1)
        return text + self.tag("endfor")

    def macro(self, depth):
        name = self.pick(["m1", "m2"])
        signature = self.pick(["", "a", "a, b", "a, b=" + self.expression(1), "a='A', b=a"])
        loops, self.loops = self.loops, 0
        marks = len(self.locals)
        self.locals += [x for x in "ab" if x in signature]
        inner = self.block(depth - 1)
        if self.chance(0.2):
            inner += "{{ varargs }}{{ kwargs }}"
        called = self.chance(0.3)
        if called:
            inner += "{{ caller(" + self.pick(["", "a", "1"]) + ") }}"
        del self.locals[marks:]
        self.loops = loops
        text = self.tag(f"macro {name}({signature})") + inner + self.tag("endmacro")
        self.macros.append(name)
        if called or self.chance(0.2):
            parameter = self.pick(["", "(y)", "(y=2)"])
            text += self.tag(f"call{parameter} {self.macro_call(1)}") + self.block(depth - 1) + self.tag("endcall")
        return text + ("{{ " + self.macro_call(1) + " }}" if self.chance(0.6) else "")


def expression_template(seed):
    return "{{ " + Generator(seed).expression(3) + " }}"


def template(seed):
    generator = Generator(seed)
    generator.tame = seed % 8 != 0
    return generator.body(3)
