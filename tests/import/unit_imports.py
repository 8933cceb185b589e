"""Documents of NGINX Unit: what is imported, and the status of each member.

A case is a directory in `unit` with `conf.json`, whose members have their statuses as comments behind them, and
`expected.json`, the document that is imported.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import imported

DIRECTORY = Path(__file__).resolve().parent / "unit"


@dataclass
class Case:
    name: str
    directory: Path


def cases():
    return [Case(path.parent.name, path.parent) for path in sorted(DIRECTORY.glob("*/conf.json"))]


def needs():
    return None


def run(arguments):
    return imported.compare("unit", sys.modules[__name__], arguments)


class Comparison:
    def __init__(self, tmp, arguments, cases):
        self.tmp, self.arguments, self.howdah, self.cases = tmp, arguments, arguments.howdah, cases

    def start(self):
        pass

    def compare(self, case):
        directory = self.tmp / case.name
        directory.mkdir()
        file = case.directory / "conf.json"
        status, document, report, messages = imported.run(self.arguments, "unit", [file], directory)
        if document is None:
            yield f"not imported: {messages}"
            return
        expected = imported.expected_lines(file.read_text(), "//")
        yield from imported.wrong_lines(report, file, expected)
        wanted = 3 if any("not converted" in statuses for statuses in expected.values()) else 0
        if status != wanted:
            yield f"exit status {status}, expected: {wanted}"
        if problem := imported.is_accepted(self.howdah, directory):
            yield f"the document is refused: {problem}"
        wanted = json.loads((case.directory / "expected.json").read_text())
        if document != wanted:
            yield f"the document is {json.dumps(document)}, expected: {json.dumps(wanted)}"

    def stop(self):
        pass
