"""A case of the comparison."""

from dataclasses import dataclass, field


@dataclass
class Case:
    """A configuration of nginx, with requests.

    `@PORT@` is the address of both servers, `/srv/www` a directory with some files, `/srv/php` one with scripts,
    `/run/php.sock` the socket of PHP-FPM, `10.0.0.1:8080` and `10.0.0.2:8080` servers that answer with the request.
    """

    name: str
    text: str  # In `http`.
    requests: list  # "METHOD TARGET | FIELD: VALUE | body=TEXT"; "~" in front lets the answers differ, but not be open.
    report: dict = field(default_factory=dict)  # {beginning of a directive: "changed" or "not converted"}; all others are converted or not needed.
    host: str = "site.test"
    files: dict = field(default_factory=dict)
    php: bool = False  # Compared twice: with the pool imported, and passed to PHP-FPM.
    fields: str = ""  # Response fields to compare, in addition to the usual ones.
    body: bool = True
    is_tls: bool = False
    is_loose: bool = False  # The report is not compared.
    log: str = ""  # A file below /var/log/ whose lines are compared.
    losses: list = field(default_factory=list)  # See LOSSES.
