"""Configurations of nginx: both servers get the same requests.

Status, fields that matter and body must be the same, unless the case says that they differ, and the report must name each
directive that is not converted as it is.
"""

import shutil
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import imported
import nginx_arguments
import nginx_random
import nginx_side
from peers import Unusable

THREADS = 3


class Kind:
    """A set of cases."""

    def __init__(self, name, cases):
        self.name, self.cases = name, cases

    def needs(self):
        """The missing requirement; None if all are met."""
        return nginx_side.needs()

    def run(self, arguments):
        """Compares the cases. Returns how many have failed."""
        cases = imported.chosen(list(self.cases()), arguments.cases)
        tmp = Path(tempfile.mkdtemp(prefix=f"howdah-import-{self.name}-"))
        tmp.chmod(0o755)
        comparison = nginx_side.Comparison(tmp, arguments.howdah, arguments.importer and arguments.importer.resolve())
        try:
            comparison.start()
            with ThreadPoolExecutor(THREADS) as pool:
                found = list(pool.map(lambda case: (case.name, attempt(comparison, case)), cases))
        finally:
            comparison.stop()
            if arguments.keep:
                print(f"Kept {tmp}")
            else:
                shutil.rmtree(tmp)
        for name, differences in found:
            for difference in differences:
                print(f"FAIL: {name}: {difference}")
        failed = sum(bool(differences) for _, differences in found)
        print(f"{self.name}: {len(found) - failed} passed, {failed} failed", flush=True)
        return failed


def attempt(comparison, case):
    """The differences of a case. A case that is broken must not hide the others."""
    try:
        return list(comparison.compare(case))
    except Unusable as problem:
        return [f"not started: {problem}"]
    except Exception:
        return [traceback.format_exc()]


KINDS = {
    "nginx": Kind("nginx", nginx_side.all_cases),
    "nginx-examples": Kind("nginx-examples", nginx_side.example_cases),
    "nginx-directives": Kind("nginx-directives", nginx_side.directive_cases),
    "nginx-arguments": nginx_arguments.Arguments(),
    "nginx-random": nginx_random.Random(),
}
