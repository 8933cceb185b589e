"""Apache (prefork) in the foreground."""

from pathlib import Path

from .processes import php, plain_user

PROGRAM = "/usr/sbin/apache2"
DIRECTORY = Path("/usr/lib/apache2/modules")


def has_php():
    """Whether mod_php is installed."""
    return Path(PROGRAM).exists() and bool(list(DIRECTORY.glob("libphp*.so")))


def modules(names):
    """The directives that load modules; `php` is mod_php of the version that is used."""
    files = {name: f"libphp{php()}.so" if name == "php" else f"mod_{name}.so" for name in names}
    return "\n".join(f"LoadModule {name}_module {DIRECTORY / file}" for name, file in files.items())


def configuration(directory, names, text, level="warn", root="/etc/apache2", errors=None, server="site.test", name="apache"):
    """The whole configuration, with modules of these names; `text` is the addition of a suite."""
    user = f"User {plain_user()}\nGroup {plain_user()}\n" if plain_user() else ""
    return f"""ServerRoot {root}
DefaultRuntimeDir {directory}
Mutex file:{directory} default
PidFile {directory}/{name}.pid
ErrorLog {errors or directory / f"{name}-error.log"}
LogLevel {level}
ServerName {server}
{user}{modules(names)}
TypesConfig /etc/mime.types
{text}
"""


def command(directory, text, name="apache"):
    """Writes a configuration; returns the command that starts Apache with it."""
    file = directory / f"{name}.conf"
    file.write_text(text)
    return [PROGRAM, "-f", file, "-D", "FOREGROUND"]
