#!/usr/bin/env python3
"""Writes src/text/jinja_unicode_tables.cpp: what Python's str knows about Unicode and utf8proc does not say.

    oracle/jinja_unicode_tables.py > src/text/jinja_unicode_tables.cpp
"""
import unicodedata

CODE_POINTS = range(0x110000)


def category(c):
    return unicodedata.category(chr(c))


def ranges(predicate):
    out = []
    for c in CODE_POINTS:
        if predicate(c):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def wrapped(items):
    line = "    "
    for item in items:
        if len(line) + len(item) + 2 > 108:
            print(line.rstrip())
            line = "    "
        line += item + ", "
    print(line.rstrip())


def print_ranges(name, comment, predicate):
    print(f"\n// {comment}")
    found = ranges(predicate)
    print(f"const std::array<CodePointRange, {len(found)}> {name} = {{{{")
    wrapped(f"{{0x{a:04X}, 0x{b:04X}}}" for a, b in found)
    print("}};")


def print_mapping(name, comment, mapping):
    found = {c: mapping(c) for c in CODE_POINTS if len(mapping(c)) > 1}
    print(f"\n// {comment}")
    print(f"const std::array<LongCaseMapping, {len(found)}> {name} = {{{{")
    wrapped(f"{{0x{c:04X}, {{{', '.join(f'0x{ord(x):04X}' for x in text)}}}}}" for c, text in found.items())
    print("}};")


print(f"// Written by oracle/jinja_unicode_tables.py from Unicode {unicodedata.unidata_version}; do not edit.")
print('#include "text/jinja_unicode_tables.h"\n\n// clang-format off\nnamespace rafter::text::jinja {')
print_ranges("kOtherLowercase", "Lower case, though not of category Ll.",
             lambda c: chr(c).islower() and category(c) != "Ll")
print_ranges("kOtherUppercase", "Upper case, though not of category Lu.",
             lambda c: chr(c).isupper() and category(c) != "Lu")
print_ranges("kOtherDigits", "Digits, though not of category Nd: superscripts and circled digits.",
             lambda c: chr(c).isdigit() and category(c) != "Nd")
print_ranges("kOtherNumeric", "Numeric, though of no category N: ideographs.",
             lambda c: chr(c).isnumeric() and category(c)[0] != "N")
print_mapping("kLongUpper", "Upper case of more than one code point.", lambda c: chr(c).upper())
print_mapping("kLongTitle", "Title case of more than one code point.", lambda c: chr(c).title())
print("\n}  // namespace rafter::text::jinja")
