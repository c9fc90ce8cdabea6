#!/usr/bin/env python3
"""JSON Schema by the `jsonschema` library: what constrained decoding is judged by.

    json_schema.py hand tests/data/json_schema_cases.json     checks the hand-written cases against the library
    json_schema.py random --out FILE --count N --seed S       random schemas, each with instances in several layouts
    json_schema.py check FILE                                 FILE: one {"schema", "text"} per line; every text must be
                                                              JSON that the library accepts. Prints the number checked.

Random schemas keep to what is documented as held (src/text/compiled_schema.h): members in the order of `properties`,
alternatives of oneOf that exclude each other, values within the bounds of lengths. Each line of FILE from `random` is
{"schema": text, "valid": [text…]}.
"""

import argparse
import json
import pathlib
import random
import re
import sys
import uuid

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError

CHECKER = FormatChecker()
TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")


@CHECKER.checks("date-time", raises=ValueError)
def is_date_time(value):
    if not isinstance(value, str):
        return True
    import datetime

    date, _, time = value.partition("T")
    datetime.date.fromisoformat(date)
    return is_time(time)


@CHECKER.checks("time")
def is_time(value):
    if not isinstance(value, str):
        return True
    parts = TIME.fullmatch(value)
    return parts is not None and int(parts[1]) < 24 and int(parts[2]) < 60 and int(parts[3]) < 60


@CHECKER.checks("uuid", raises=ValueError)
def is_uuid(value):
    return not isinstance(value, str) or str(uuid.UUID(value)) == value.lower()


def without_nullable(schema):
    """OpenAPI's nullable in JSON Schema's own words."""
    if isinstance(schema, list):
        return [without_nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: without_nullable(value) for key, value in schema.items()}
    if result.pop("nullable", None) is True and "type" in result:
        types = result["type"]
        result["type"] = (types if isinstance(types, list) else [types]) + ["null"]
    return result


def finite(digits):
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("not finite")
    return value


def no_constant(name):
    raise ValueError(name)


def fault_of(schema, text):
    """What is wrong with a text, or None."""
    try:
        value = json.loads(text, parse_constant=no_constant, parse_float=finite)
        text.encode("utf-8")
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate
        Draft202012Validator(without_nullable(schema), format_checker=CHECKER).validate(value)
    except (ValueError, ValidationError, RecursionError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return None


def hand(path):
    faults = 0
    for case in json.loads(path.read_text(encoding="utf-8")):
        schema = case["schema"]
        if "error" in case or case.get("annotation"):
            continue
        for text in case.get("valid", []):
            fault = fault_of(schema, text)
            if fault:
                print(f"{json.dumps(schema)}: {text!r} is not valid: {fault}")
                faults += 1
        for text in case.get("invalid", []):
            if fault_of(schema, text) is None:
                print(f"{json.dumps(schema)}: {text!r} is valid")
                faults += 1
    return faults


WORDS = ["a", "id", "name", "größe", "x y", 'q"', "back\\", "日本", "🙂", "tab\t", "type", "value", "n/a", "é"]
PATTERNS = {  # pattern: how to make a string of it
    "^[a-z]{2,5}$": lambda r: "".join(r.choice("abcxyz") for _ in range(r.randint(2, 5))),
    "^(foo|bar)+$": lambda r: "".join(r.choice(["foo", "bar"]) for _ in range(r.randint(1, 3))),
    "^\\+?[0-9]{3}-[0-9]{4}$": lambda r: r.choice(["", "+"]) + f"{r.randint(0, 999):03}-{r.randint(0, 9999):04}",
    "b.d": lambda r: r.choice(["bad", "a bed", "bid you", "xbüd\\"]),
    "^[^x\"]*$": lambda r: r.choice(["", "hello", "日本語", "tab\t\\"]),
    "end$": lambda r: r.choice(["end", "the end", "\nend"]),
    "^v\\d+(\\.\\d+)?": lambda r: f"v{r.randint(0, 99)}" + r.choice(["", ".5", ".5 rest", " ünd"]),
}
FORMATS = {
    "date": lambda r: f"{r.randint(1, 9999):04}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
    "date-time": lambda r: f"20{r.randint(10, 30)}-02-{r.randint(1, 28):02}T{r.randint(0, 23):02}:30:59" + r.choice(["Z", "+05:30", ".123Z"]),
    "uuid": lambda r: str(uuid.UUID(int=r.getrandbits(128))),
    "ipv4": lambda r: ".".join(str(r.randint(0, 255)) for _ in range(4)),
    "email": lambda r: r.choice(["a@example.com", "first.last+tag@sub.example.org"]),
}


class Random:
    """Pairs of a schema and a function that makes instances of it."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self, most=12):
        return "".join(self.r.choice(["a", "b", " ", "é", "日", "🙂", '"', "\\", "\n", "/", "1", "\u007f", "\u0001"]) for _ in range(self.r.randint(0, most)))

    def any_value(self, depth=2):
        r = self.r
        kind = r.randint(0, 6 if depth else 4)
        if kind == 0:
            return None
        if kind == 1:
            return r.random() < 0.5
        if kind == 2:
            return r.randint(-(10**6), 10**6)
        if kind == 3:
            return r.uniform(-1e6, 1e6) * 10 ** r.randint(-30, 30)
        if kind == 4:
            return self.text()
        if kind == 5:
            return [self.any_value(depth - 1) for _ in range(r.randint(0, 3))]
        return {self.text(4): self.any_value(depth - 1) for _ in range(r.randint(0, 3))}

    def schema(self, depth):
        r = self.r
        simple = [self.string, self.integer, self.number, self.boolean, self.null, self.enum, self.const]
        nested = [self.object, self.object, self.array, self.tuple, self.any_of, self.one_of, self.all_of, self.any]
        schema, make = r.choice(nested if depth and r.random() < 0.7 else simple)(depth - 1)
        if r.random() < 0.1 and isinstance(schema, dict):
            schema = {"title": "Title", "description": "Some text.", **schema, "x-unknown": 1}
        return schema, make

    def string(self, depth):
        r = self.r
        kind = r.randint(0, 3)
        if kind == 0:
            pattern = r.choice(list(PATTERNS))
            return {"type": "string", "pattern": pattern}, lambda: PATTERNS[pattern](r)
        if kind == 1:
            name = r.choice(list(FORMATS))
            return {"type": "string", "format": name}, lambda: FORMATS[name](r)
        least, most = r.randint(0, 3), r.randint(3, 9)
        schema = {"type": "string"}
        if r.random() < 0.5:
            schema["minLength"] = least
        if r.random() < 0.5:
            schema["maxLength"] = most

        def make():
            text = self.text(most)
            return text if len(text) >= least else text + "z" * least

        return schema, lambda: make()[:most]

    def integer(self, depth):
        r = self.r
        schema, low, high = {"type": "integer"}, -(10**17), 10**17
        if r.random() < 0.6:
            low = r.choice([0, 1, -5, r.randint(-10000, 10000)])
            schema["minimum"] = low
        if r.random() < 0.6:
            high = max(low, 0) + r.choice([0, 9, 10, 255, r.randint(0, 10**6)])
            schema["exclusiveMaximum"] = high + 1
        step = r.choice([1, 1, 1, 5, 7])
        if step > 1:
            first = -(-low // step) * step
            if first > high:
                return schema, lambda: r.randint(low, high)
            schema["multipleOf"] = step
            return schema, lambda: r.randrange(first, high + 1, step)
        return schema, lambda: r.randint(low, high)

    def number(self, depth):
        r = self.r
        schema, low, high = {"type": "number"}, -1e6, 1e6
        if r.random() < 0.5:
            low = r.choice([0, -1.5, 0.25, -100])
            schema["minimum"] = low
        if r.random() < 0.5:
            high = r.choice([1, 2.75, 99.5, 1000])
            schema["maximum"] = high
        return schema, lambda: r.choice([low, high, r.randint(-(-int(max(low, 0.25)) // 1) or 1, max(1, int(high))) if high >= 1 else high, round(r.uniform(low, high), r.randint(1, 3))])

    def boolean(self, depth):
        return {"type": "boolean"}, lambda: self.r.random() < 0.5

    def null(self, depth):
        return {"type": "null"}, lambda: None

    def any(self, depth):
        return self.r.choice([True, {}]), self.any_value

    def enum(self, depth):
        values = [self.r.choice([*WORDS, 1, -2.5, None, True]) for _ in range(self.r.randint(1, 6))]
        return {"enum": values}, lambda: self.r.choice(values)

    def const(self, depth):
        value = self.r.choice([*WORDS, 0, 12, {"a": [1, "b"]}, [None, {}], []])
        return {"const": value}, lambda: value

    def object(self, depth):
        r = self.r
        names = r.sample(WORDS, r.randint(0, 5))
        parts = {name: self.schema(depth) for name in names}
        required = [name for name in names if r.random() < 0.5]
        schema = {"type": "object", "properties": {name: part[0] for name, part in parts.items()}}
        if required:
            schema["required"] = required
        extra = None
        if r.random() < 0.3:
            extra = self.schema(0)
            schema["additionalProperties"] = extra[0]
        elif r.random() < 0.5:
            schema["additionalProperties"] = False

        def make():
            value = {name: parts[name][1]() for name in names if name in required or r.random() < 0.5}
            for _ in range(r.randint(0, 2) if extra else 0):
                name = self.text(5)
                if name not in parts:
                    value[name] = extra[1]()
            return value

        return schema, make

    def array(self, depth):
        r = self.r
        schema, make = self.schema(depth)
        least, most = r.randint(0, 2), r.randint(2, 5)
        whole = {"type": "array", "items": schema}
        if least or r.random() < 0.3:
            whole["minItems"] = least
        if r.random() < 0.5:
            whole["maxItems"] = most
        return whole, lambda: [make() for _ in range(r.randint(least, most))]

    def tuple(self, depth):
        r = self.r
        parts = [self.schema(depth) for _ in range(r.randint(1, 3))]
        whole = {"type": "array", "prefixItems": [part[0] for part in parts], "minItems": len(parts)}
        if r.random() < 0.5:
            whole["items"] = False
        return whole, lambda: [part[1]() for part in parts]

    def any_of(self, depth):
        parts = [self.schema(depth) for _ in range(self.r.randint(1, 4))]
        return {"anyOf": [part[0] for part in parts]}, lambda: self.r.choice(parts)[1]()

    def one_of(self, depth):
        parts = [({"type": "object", "properties": {"kind": {"const": name}, "value": part[0]}, "required": ["kind", "value"]}, name, part[1]) for name, part in ((f"k{i}", self.schema(depth)) for i in range(3))]

        def make():
            _, name, value = self.r.choice(parts)
            return {"kind": name, "value": value()}

        return {"oneOf": [part[0] for part in parts]}, make

    def all_of(self, depth):
        (a, make_a), (b, make_b) = self.schema(depth), self.schema(depth)
        schema = {"allOf": [{"type": "object", "properties": {"a": a}, "required": ["a"]}, {"properties": {"b": b}}]}
        return schema, lambda: {"a": make_a(), **({"b": make_b()} if self.r.random() < 0.5 else {})}

    def recursive(self):
        leaf, make_leaf = self.schema(1)
        schema = {
            "$defs": {"node": {"type": "object", "properties": {"value": leaf, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"]}},
            "$ref": "#/$defs/node",
        }

        def make(depth=3):
            node = {"value": make_leaf()}
            if self.r.random() < 0.5:
                node["children"] = [make(depth - 1) for _ in range(self.r.randint(0, 2 if depth > 0 else 0))]
            node["next"] = make(depth - 1) if depth > 0 and self.r.random() < 0.5 else None
            return node

        return schema, make


def layouts(value, r):
    return [
        json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        json.dumps(value),
        json.dumps(value, indent=r.choice([1, 2, "\t"]), ensure_ascii=r.random() < 0.5),
    ]


def write_random(out, count, seed):
    out.parent.mkdir(parents=True, exist_ok=True)
    source = Random(seed)
    faults = 0
    with out.open("w", encoding="utf-8") as file:
        for i in range(count):
            schema, make = source.recursive() if i % 10 == 0 else source.schema(3)
            if schema == {}:  # at the top it stands for any object
                continue
            texts = []
            for _ in range(4):
                value = make()
                texts += [text for text in layouts(value, source.r) if fault_of(schema, text) is None]
            faults += 12 - len(texts)
            file.write(json.dumps({"schema": json.dumps(schema, ensure_ascii=False), "valid": texts}) + "\n")
    if faults > count:
        sys.exit(f"json_schema.py: {faults} of {12 * count} instances are not valid")
    print(f"json_schema.py: {count} schemas, {12 * count - faults} texts")


def check(path):
    count = faults = 0
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        case = json.loads(line)
        count += 1
        fault = fault_of(json.loads(case["schema"]), case["text"])
        if fault:
            faults += 1
            print(f"{case['schema']}: {case['text']!r}: {fault}")
    print(count)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("hand", "check"):
        verbs.add_parser(verb).add_argument("file", type=pathlib.Path)
    of_random = verbs.add_parser("random")
    of_random.add_argument("--out", type=pathlib.Path, required=True)
    of_random.add_argument("--count", type=int, default=400)
    of_random.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.verb == "random":
        write_random(arguments.out, arguments.count, arguments.seed)
        return 0
    return 1 if (hand if arguments.verb == "hand" else check)(arguments.file) else 0


if __name__ == "__main__":
    sys.exit(main())
