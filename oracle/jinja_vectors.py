#!/usr/bin/env python3
"""What transformers' own template environment renders, as vectors for the tests.

    jinja_vectors.py cases --out tests/data/jinja/cases.json                       the hand-written cases
    jinja_vectors.py real --templates DIR --out tests/data/jinja/real.json         length and hash per real render
    jinja_vectors.py real --templates DIR --expectations DIR2                      the renders themselves, to look at
    jinja_vectors.py random --count 10000 --seed 1 --out FILE                      random cases; jinja_test runs them
                                                                                   with RAFTER_JINJA_CASES=FILE
Needs transformers and jinja2 as oracle/requirements.txt pins them; no torch. The clock stands at
2025-07-04 15:06:07.000089.
"""
import argparse
import copy
import datetime
import json
import pathlib
import re
import signal
import warnings

from jinja2.exceptions import TemplateError
from transformers.utils import chat_template_utils

import jinja_cases
import jinja_conversations
import jinja_random

warnings.simplefilter("ignore")  # of odd escapes in random templates


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 7, 4, 15, 6, 7, 89)


chat_template_utils.datetime = FixedClock
compile_template = chat_template_utils._compile_jinja_template.__wrapped__


def render(template, variables):
    """The text, or None for an error. Filters can change lists in place, so the variables are copied."""
    try:
        text = compile_template(template).render(**copy.deepcopy(variables))
        text.encode()  # a lone surrogate is an error
        return text
    except Exception:
        return None


def refusal(template, variables):
    """What raise_exception was called with, or None when the error is another one."""
    try:
        compile_template(template).render(**copy.deepcopy(variables))
    except Exception as error:
        return str(error) if type(error) is TemplateError else None


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def write_json(path, value, indent=None):
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    pathlib.Path(path).write_text(text.replace("\u2028", "\\u2028") + "\n", newline="")


def case(template, text, variables=None):
    return {"template": template, **({"variables": variables} if variables is not None else {}),
            **({"error": True} if text is None else {"text": text})}


def write_cases(out):
    groups = {}
    for name, templates in jinja_cases.GROUPS.items():
        groups[name] = [case(template, render(template, jinja_cases.BASE)) for template in templates]
        errors = sum("error" in made for made in groups[name])
        print(f"{name}: {len(templates)} cases, {errors} errors")
        if errors not in (0, len(templates)):
            raise SystemExit(f"{name}: {errors} errors")
    lines = ["{\"variables\":" + json.dumps(jinja_cases.BASE, ensure_ascii=False) + ",\"groups\":{"]
    for i, (name, made) in enumerate(groups.items()):
        rows = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in made)
        lines.append(f"{json.dumps(name)}:[\n{rows}\n]" + ("," if i + 1 < len(groups) else ""))
    pathlib.Path(out).write_text("\n".join(lines) + "\n}}\n", newline="")


# Addresses, which no two runs share, and what the engine leaves out on purpose: integers beyond 64 bits, complex
# numbers.
UNSTABLE = re.compile(r"at0x|gener|reneg|objectat|reversediterator", re.IGNORECASE)


def is_stable(text):
    return text is None or not UNSTABLE.search(re.sub(r"[^a-z0-9]", "", text.lower()))


class OutOfTime(Exception):
    pass


def out_of_time(*_):
    raise OutOfTime


def write_random(out, count, seed):
    signal.signal(signal.SIGALRM, out_of_time)
    made = []
    for number in range(seed, seed + count):
        source = (jinja_random.template if number % 2 else jinja_random.expression_template)(number)
        signal.alarm(10)
        try:
            text = render(source, jinja_random.VARIABLES)
        except OutOfTime:
            continue
        finally:
            signal.alarm(0)
        if is_stable(text):
            made.append(case(source, text))
    write_json(out, {"variables": jinja_random.VARIABLES, "groups": {"random": made}})
    print(f"{len(made)} cases, {sum('error' in row for row in made)} errors")


def write_real(templates, out, expectations):
    inputs = list(jinja_conversations.inputs())
    results, refusals = {}, {}
    for path in sorted(pathlib.Path(templates).glob("*.jinja")):
        source = path.read_bytes().decode()
        row = []
        for name, variables in inputs:
            text = render(source, variables)
            if text is None and (message := refusal(source, variables)) is not None:
                refusals.setdefault(path.name, {})[name] = message
            row.append("error" if text is None else f"{len(text.encode())}:{fnv1a(text.encode())}")
            if expectations:
                folder = pathlib.Path(expectations) / path.stem
                folder.mkdir(parents=True, exist_ok=True)
                (folder / (name.replace("/", ".") + ".txt")).write_text(text or "(error)", newline="")
        results[path.name] = row
        print(f"{path.name}: {len(row)} renders, {row.count('error')} errors")
    if out:
        lines = ["{\"conversations\":" + json.dumps(jinja_conversations.CONVERSATIONS, ensure_ascii=False, separators=(",", ":")),
                 ",\"variants\":" + json.dumps(jinja_conversations.VARIANTS, ensure_ascii=False, separators=(",", ":")),
                 ",\"inputs\":" + json.dumps([name for name, _ in inputs], separators=(",", ":")), ",\"templates\":{"]
        lines.append(",\n".join(json.dumps(name) + ":" + json.dumps(row, separators=(",", ":")) for name, row in results.items()))
        lines.append("},\"refusals\":{")
        lines.append(",\n".join(json.dumps(name) + ":" + json.dumps(row, separators=(",", ":")) for name, row in refusals.items()))
        pathlib.Path(out).write_text("\n".join(lines) + "\n}}\n", newline="")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=["cases", "real", "random"])
parser.add_argument("--out")
parser.add_argument("--templates")
parser.add_argument("--expectations")
parser.add_argument("--count", type=int, default=10000)
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()
if arguments.what == "cases":
    write_cases(arguments.out)
elif arguments.what == "random":
    write_random(arguments.out, arguments.count, arguments.seed)
else:
    write_real(arguments.templates, arguments.out, arguments.expectations)
