"""Lists the directives of an installed Apache, by module."""

import re
import subprocess
import tempfile
from pathlib import Path

MODULES = "alias dir expires headers log_config mpm_event proxy"


def directives(program, modules):
    """{name of a module: its directives}. `modules` is the directory of the loadable modules."""
    with tempfile.TemporaryDirectory(prefix="howdah-apache-") as directory:
        lines = [f"ServerRoot {directory}", f"DefaultRuntimeDir {directory}", "ServerName a",
                 f"ErrorLog {directory}/log"]
        for name in MODULES.split():
            if (file := modules / f"mod_{name}.so").exists():  # the others are linked statically
                lines.append(f"LoadModule {name}_module {file}")
        config = Path(directory) / "conf"
        config.write_text("\n".join(lines) + "\n")
        listed = subprocess.run([program, "-f", config, "-L"], capture_output=True, text=True, check=True)
    found = {}
    for name, module in re.findall(r"^(\S+) \((\w+)\.c\)$", listed.stdout, re.MULTILINE):
        found.setdefault(module, []).append(name + ">" if name.startswith("<") else name)
    return found
