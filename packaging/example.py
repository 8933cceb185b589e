#!/usr/bin/env python3
"""Prints the example document with the meaning of each key as a comment.

    packaging/example.py SCHEMA

SCHEMA is the output of `howdah schema`, from which the comments come. The values are those of
example.json. Ends with status 1 if a key of the schema is not in the example: it has every key.
"""

import json
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent / "example.json"
HEAD = """\
// Every key of a configuration of Howdah, with its meaning. The values are examples that are valid
// together, not the defaults, and no site needs more than a few of them. The manual of the configuration
// has the defaults: /usr/share/doc/howdah/configuration.md.gz, in the package howdah-doc.
"""
WIDTH = 104


class Printer:
    def __init__(self, schema):
        self.definitions = schema["definitions"]
        self.schema = schema
        self.used = set()
        self.lines = []

    def shapes(self, schema):
        """All alternatives of a schema, with the names of their definitions."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            yield name, self.definitions[name]
        for key in ("allOf", "anyOf"):
            for part in schema.get(key, []):
                yield from self.shapes(part)
        yield None, schema

    def members(self, schema, value):
        """Name and properties of the definition that a value has; none for an object of free names."""
        for name, shape in self.shapes(schema):
            properties = shape.get("properties")
            is_fastcgi = value.get("type") == "fastcgi"
            if properties and value.keys() <= properties.keys() and (name == "fastcgi" or not is_fastcgi):
                return name, properties
        return None, {}

    def value_schema(self, schema, kind):
        """The schema of elements (`items`) or of free members (`additionalProperties`)."""
        return {"anyOf": [shape[kind] for _, shape in self.shapes(schema) if isinstance(shape.get(kind), dict)]}

    def print(self, schema, value, indent, before, after):
        """Adds the lines of a value behind `before`, such as a name, and ends them with `after`."""
        name, properties = self.members(schema, value) if isinstance(value, dict) else (None, {})
        pad = " " * indent
        if isinstance(value, dict) and value:
            self.lines.append(f"{pad}{before}{{")
            for index, (key, member) in enumerate(value.items()):
                comma = "," if index + 1 < len(value) else ""
                known = properties.get(key)
                if known is not None and (name, key) not in self.used:
                    self.used.add((name, key))
                    self.comment(known.get("description", ""), indent + 4)
                inner = known if known is not None else self.value_schema(schema, "additionalProperties")
                self.print(inner, member, indent + 4, f"{json.dumps(key)}: ", comma)
            self.lines.append(f"{pad}}}{after}")
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            self.lines.append(f"{pad}{before}[")
            for index, one in enumerate(value):
                comma = "," if index + 1 < len(value) else ""
                self.print(self.value_schema(schema, "items"), one, indent + 4, "", comma)
            self.lines.append(f"{pad}]{after}")
        else:
            self.lines.append(f"{pad}{before}{json.dumps(value)}{after}")

    def comment(self, text, indent):
        line = ""
        for word in text.split():
            if line and indent + 3 + len(line) + 1 + len(word) > WIDTH:
                self.lines.append(f"{' ' * indent}// {line}")
                line = word
            else:
                line = f"{line} {word}".strip()
        if line:
            self.lines.append(f"{' ' * indent}// {line}")

    def missing(self):
        """The keys of all definitions that the example does not have."""
        return [f"{name}/{key}" for name, definition in self.definitions.items()
                for key in definition.get("properties", {}) if (name, key) not in self.used]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    printer = Printer(json.loads(Path(sys.argv[1]).read_text()))
    printer.print(printer.schema, json.loads(EXAMPLE.read_text()), 0, "", "")
    if missing := printer.missing():
        sys.exit(f"{EXAMPLE}: these keys of the schema are missing: {', '.join(missing)}")
    print(HEAD + "\n".join(printer.lines))


if __name__ == "__main__":
    main()
