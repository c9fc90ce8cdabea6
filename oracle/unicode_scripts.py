#!/usr/bin/env python3
"""Writes src/text/unicode_scripts.inc: the script of every character as the `tokenizers` library has it, which takes them
from tables of its own age. Found by asking the library about every character: which ones it does not part.

    oracle/unicode_scripts.py > src/text/unicode_scripts.inc
"""

from tokenizers.pre_tokenizers import UnicodeScripts

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ANY, LATIN, CYRILLIC = range(3)


def pieces(text):
    return [piece for piece, _ in UnicodeScripts().pre_tokenize_str(text)]


def among_two(character):
    """Any, Latin or Cyrillic; None for other scripts."""
    first = pieces("a" + character + "б")
    if len(first) == 3:
        return None
    if first[0] == "a":
        return CYRILLIC
    return ANY if pieces("б" + character + "a")[0] == "б" + character else LATIN


def scripts():
    found, examples, last = {}, {}, None
    for c in CODE_POINTS:
        script = among_two(chr(c))
        if script is None:
            same = last is not None and len(pieces(chr(last) + chr(c))) == 1
            script = found[last] if same else None
            for other, example in examples.items() if script is None else ():
                if len(pieces(example + chr(c))) == 1:
                    script = other
                    break
            if script is None:
                script = 3 + len(examples)
                examples[script] = chr(c)
            last = c
        found[c] = script
    return found


def main():
    runs = []
    for c, script in scripts().items():
        if not runs or runs[-1][1] != script:
            runs.append((c, script))
    line = ""
    for c, script in runs:
        item = f"{{0x{c:X}, {script}}}, "
        if len(line) + len(item) > 110:
            print(line.rstrip())
            line = ""
        line += item
    print(line.rstrip())


if __name__ == "__main__":
    main()
