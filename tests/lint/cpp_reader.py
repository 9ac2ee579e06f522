# SPDX-License-Identifier: MIT
"""Reads the classes of C++ sources: how many methods each declares, how many lines define it, what it shows
besides methods, and where its methods are defined. It reads declarations alone: bodies of functions and
initializers are skipped, brace by brace."""
import dataclasses
import os
import re

TOKEN = re.compile(r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*)
  |(?P<text>(?:u8|[uUL])?R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"
    |(?<![\w'])'(?:[^'\\\n]|\\.)+')
  |(?P<word>[A-Za-z_]\w*)|(?P<number>\d(?:['\w.]|(?<=[eE])[+-])*)|(?P<mark>::|->|.)""", re.X | re.S | re.M)
CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}
WITH_PARENTHESES = ("alignas", "decltype", "noexcept", "requires", "__attribute__", "explicit")
SPECIFIERS = ("static", "constexpr", "constinit", "inline", "typedef", "extern", "const", "thread_local")


@dataclasses.dataclass
class Class:
    methods: int = 0  # declared, with those that the class defines; neither deleted nor defaulted. And names that it
    #                   takes over from its bases by `using`
    lines: int = 0    # its definition and its methods' elsewhere, without classes nested in it
    data: int = 0     # public data members that are not static


def tokens_of(text):
    """(token, line) of all that means something: not macros' definitions, nor what is between #else and #endif."""
    tokens, line, depth, off = [], 1, 0, None
    for found in TOKEN.finditer(text):
        directive = re.match(r"\s*#\s*(if|el|endif)", found[0]) if found["blank"] else None
        if directive:
            depth += (directive[1] == "if") - (directive[1] == "endif")
            if directive[1] == "el" and off is None:
                off = depth
            elif off is not None and depth < off:
                off = None
        elif not found["blank"] and off is None:
            tokens.append(("text" if found["text"] else found[0], line))
        line += found[0].count("\n")
    return tokens


def is_macro(word):
    return re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", word) is not None


def bare(words):
    """A declaration's words without attributes, annotations and what stands in <> and (): `f ( )`."""
    kept, at = [], 0

    def after(start):
        depth = 0
        for i in range(start, len(words)):
            depth += (words[i] == words[start]) - (words[i] == CLOSING[words[start]])
            if depth == 0:
                return i + 1
        return len(words)
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        if word == "operator":
            end = at + 3 if following == "(" else words.index("(", at) if "(" in words[at:] else len(words)
            kept.append("operator")
            at = end
        elif following == "(" and (word in WITH_PARENTHESES or is_macro(word)):
            at = after(at + 1)
        elif word == "[":
            at = after(at)
        elif word == "<":
            at = after(at)
        elif word == "(":
            kept += ["(", "*", ")"] if following in ("*", "&") else ["(", ")"]
            at = after(at)
        elif word == "template" or is_macro(word):
            at += 1
        else:
            kept.append(word)
            at += 1
    return kept


def function_at(words):
    """Where the parentheses of a function's parameters begin in bare(), or None."""
    for at, word in enumerate(words):
        if word == "=":
            return None
        if word == "(":
            named = at > 0 and (words[at - 1][0].isalpha() or words[at - 1][0] == "_")
            return at if named and words[at + 1] == ")" else None
    return None


class Reader:
    def __init__(self, path, text):
        self.path = path
        self.tokens = tokens_of(text)
        self.at = 0
        self.classes = {}      # name: Class
        self.elsewhere = []    # (namespaces, qualified name, lines) of functions defined outside a class
        self.declares = set()  # qualified names of functions outside classes, if it is a header, and of classes
        self.defines = set()   # qualified names of functions outside classes
        self.namespaces = set()
        self.problems = []

    def skip(self):
        """From an opening brace or parenthesis to behind its end; the end's line."""
        opening, depth = self.tokens[self.at][0], 0
        while self.at < len(self.tokens):
            word, line = self.tokens[self.at]
            depth += (word == opening) - (word == CLOSING[opening])
            self.at += 1
            if depth == 0:
                return line
        self.problems.append(f"{self.path}: a {opening} has no end")
        return self.tokens[-1][1]

    def read(self, scope=(), owner=None, public=False):
        """Declarations to the end of a scope; the line of that and the lines of classes within."""
        words, first, nested = [], 0, 0
        while self.at < len(self.tokens):
            word, line = self.tokens[self.at]
            first = first if words else line
            if word == "(":
                start = self.at
                self.skip()
                words += [w for w, _ in self.tokens[start:self.at]]
                continue
            if word == "{":
                end, lines = self.braces(words, first, scope, owner)
                nested += lines
                words = [*words, "{", "}"] if end is None else []
                continue
            self.at += 1
            if word == "}" and scope:
                return line, nested
            if word == ";":
                self.declared(words, scope, owner, public)
            access = word == ":" and words in (["public"], ["private"], ["protected"])
            public = words == ["public"] if access else public
            if word in (";", "}") or access:
                words = []
            else:
                words.append(word)
        if scope:
            self.problems.append(f"{self.path}: {'::'.join(scope)} has no end")
        return self.tokens[-1][1] if self.tokens else 0, nested

    def declared(self, words, scope, owner, public):
        short = bare(words)
        function = function_at(short)
        if not short or short[0] in ("typedef", "friend", "static_assert", "enum", "class", "struct", "union"):
            return
        if not owner:
            if function is not None and short[function - 2:function - 1] != ["::"] and self.path.endswith((".h", ".hpp")):
                self.declares.add(scope + (short[function - 1],))
        elif short[0] == "using":
            owner.methods += 0 if "=" in short or short[1] == "enum" else short.count(",") + 1
        elif function is not None:
            owner.methods += short[-2:] not in (["=", "delete"], ["=", "default"])
        elif public and "static" not in short:
            owner.data += short.count(",") + 1

    def braces(self, words, first, scope, owner):
        """What an opening brace begins. (None, 0) where the declaration goes on behind it."""
        short = bare(words)
        plain = [w for w in short if w not in SPECIFIERS]
        function = function_at(short)
        if plain[:1] == ["namespace"] or plain == ["text"]:
            names = tuple(w for w in plain[1:] if w != "::") or ((f"({self.path})",) if plain[0] == "namespace" else ())
            self.namespaces.update(scope + names[:i + 1] for i in range(len(names)))
            self.at += 1
            return self.read(scope + names + (("",) if not names else ()), None)
        if plain[:1] and plain[0] in ("class", "struct", "union") and function is None and "=" not in plain:
            head = plain[1:plain.index(":")] if ":" in plain else plain[1:]
            name = scope + tuple(w for w in head if w not in ("::", "final") and (w[0].isalpha() or w[0] == "_"))
            if len(name) == len(scope):
                name += (f"(line {first} of {self.path})",)
            self.at += 1
            found = self.classes.setdefault(tuple(n for n in name if n), Class())
            self.declares.add(tuple(n for n in name if n))
            end, inner = self.read(name, found, plain[0] != "class")
            lines = end - first + 1
            found.lines += lines - inner
            return end, lines
        in_list = function is not None and ":" in short[function:] and words[-1] not in (")", "}")
        if function is None or in_list:
            self.skip()
            return None, 0
        end = self.skip()
        if owner:
            if short[0] != "friend":
                owner.methods += 1
        else:
            name = short[:function]
            begin = len(name) - 1
            while begin > 1 and name[begin - 1] in ("::", "~"):
                begin -= 2 if name[begin - 1] == "::" else 1
            qualified = tuple(w for w in name[begin:] if w not in ("::", "~"))
            here = tuple(n for n in scope if n)
            if len(qualified) > 1:
                self.elsewhere.append((here, qualified[:-1], end - first + 1))
            else:
                self.defines.add(here + qualified)
                if self.path.endswith((".h", ".hpp")):
                    self.declares.add(here + qualified)
        return end, 0


def owner_of(known, scope, qualifier):
    """The longest name among `known` that a qualifier within a scope may mean, or None."""
    return next((name for name in (scope[:i] + qualifier for i in range(len(scope), -1, -1)) if name in known), None)


def read_classes(texts):
    """`texts`: path to text. The classes by name, what could not be understood, and functions that are defined in
    another folder than they are declared in: (name of the function or of its class, path)."""
    readers = [Reader(path, text) for path, text in texts.items()]
    classes, namespaces, problems, astray, declared = {}, set(), [], set(), {}
    for reader in readers:
        reader.read()
        problems += reader.problems
        namespaces |= reader.namespaces
        for name in reader.declares:
            declared.setdefault(name, set()).add(os.path.dirname(reader.path))
        for name, found in reader.classes.items():
            whole = classes.setdefault(name, Class())
            whole.methods += found.methods
            whole.lines += found.lines
            whole.data += found.data
    for reader in readers:
        folder = os.path.dirname(reader.path)
        astray.update((name, reader.path) for name in reader.defines if folder not in declared.get(name, {folder}))
        for scope, qualifier, lines in reader.elsewhere:
            owner = owner_of(classes, scope, qualifier)
            if owner:
                classes[owner].lines += lines
                if folder not in declared[owner]:
                    astray.add((owner, reader.path))
            elif not owner_of(namespaces, scope, qualifier):
                problems.append(f"{reader.path}: no class {'::'.join(qualifier)} for a function of it")
    return {"::".join(name): found for name, found in classes.items()}, problems, \
        sorted(("::".join(name), path) for name, path in astray)
