"""The table of intended differences, each with its reason. It ends up in docs/differences.md."""

from .judge import Intended

TABLE = (
    Intended(
        "Hidden files are never sent: 404",
        "A segment that begins with a dot is configuration, credentials or version control; the exception is "
        "`/.well-known/` as the first segment. 404 instead of 403 does not tell whether the file exists.",
        ("hidden *", "settings file of PHP", "HEAD of a hidden file"),
        {"status": "404", "by": "server"}, alone=True, topic="Files",
    ),
    Intended(
        "Copies of scripts are never sent: 404",
        "Copies that editors and hands leave (`.php~`, `.php.bak`, `.phps`, `.PHP`, `.php.swp`) hold the source and often "
        "credentials. The peers send most of them as text.",
        ("copy of a script *", "HEAD of a copy of a script", "range of a copy of a script"),
        {"status": "404", "by": "server"}, alone=True, topic="Files",
    ),
)
