"""Lists the directives of an installed PHP-FPM from its program file and the configuration that comes with it.

The program has a table of the directives in `[global]` and one of those in a pool (`struct ini_value_parser_s`: name,
function, place). Directives with a member in their names, such as `env[PATH]`, are in no table; they are taken
from the configuration files of the package, and so is `include`, which the parser knows itself.
"""

import re
import sys
from pathlib import Path

from program_image import Image

sys.path.append(str(Path(__file__).resolve().parents[1]))
from peers.fpm import programs  # noqa: E402

ENTRY_BYTES = 24
# A directive that each version has leads to its table.
TABLES = {"global": b"emergency_restart_threshold", "pool": b"pm.max_children"}
WITH_MEMBER = re.compile(r"^;?\s*([a-z_.]+)\[[^]]*\]\s*=|\b(php_(?:admin_)?(?:value|flag))\b", re.MULTILINE)
INCLUDE = re.compile(r"^;?\s*(include)\s*=", re.MULTILINE)


def table(image, name):
    """The names in the table that has this one."""
    begin = image.memory.find(b"\0" + name + b"\0") + 1
    entries = [place for place in image.places(begin) if begin and image.word(place + 8)]
    if len(entries) != 1:
        raise ValueError(f"the program has {len(entries)} tables with {name.decode()}")
    entry = entries[0]
    while image.word(entry - ENTRY_BYTES):
        entry -= ENTRY_BYTES
    names = []
    while image.word(entry):
        names.append(image.text(image.word(entry)))
        entry += ENTRY_BYTES
    return names


def directives(program):
    """{"global": names, "pool": names}"""
    image = Image(program)
    found = {section: table(image, name) for section, name in TABLES.items()}
    version = re.search(r"[\d.]+$", program.name)
    settings = Path("/etc/php") / (version[0] if version else "") / "fpm"
    texts = [path.read_text(errors="replace") for path in sorted(settings.rglob("*.conf"))]
    found["global"] += sorted({name for text in texts for name in INCLUDE.findall(text)})
    found["pool"] += sorted({first or second for text in texts for first, second in WITH_MEMBER.findall(text)})
    return found


if __name__ == "__main__":
    for section, names in directives(programs()[-1]).items():
        print(section, *names)
