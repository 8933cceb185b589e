"""Intended differences between Howdah's `.htaccess` and Apache's, each with its reason; docs/htaccess.md lists them."""

import fnmatch
from dataclasses import dataclass


@dataclass(frozen=True)
class Intended:
    """An aspect in which Howdah answers on its own."""

    title: str
    reason: str
    # Titles of cases (`module: name`), as patterns.
    cases: tuple
    # Aspects and Howdah's values; None stands for absence. Names are patterns.
    expect: dict

    def covers(self, title, aspect, ours):
        if not any(fnmatch.fnmatchcase(title, pattern) for pattern in self.cases):
            return False
        return any(fnmatch.fnmatchcase(aspect, name) and wanted in (ours, ANY) for name, wanted in self.expect.items())


# Stands for any value.
ANY = object()

def refused(status, reason):
    """The aspects of an answer with an error in place of a file."""
    return {
        "status": str(status),
        "body": f"<!doctype html><title>{status}</title><p>{status} {reason}</p>\n",
        "field content-type": "text/html; charset=iso-8859-1",
        "field *": None,
    }


REFUSED = refused(403, "Forbidden")

TABLE = (
    Intended(
        "CONNECT is refused by the parser",
        "Howdah is no forward proxy",
        ("core: methods on a file",), {"*": ANY}),
    Intended(
        "a method that has anything but capital letters, `-` and `_` is refused by the parser",
        "routes compare methods, and applications do not agree on their case",
        ("core: methods on everything",), {"status": "400", "body": ANY, "field *": ANY}),
    Intended(
        "an encoded NUL in a path is refused by the parser",
        "no file name contains a NUL",
        ("core: queries and odd characters", "rewrite: NUL in a path"), {"status": "400"}),
    Intended(
        "a path that leads above the root behind encoded slashes is refused by the parser",
        "routes see decoded paths, so none of them may lead there",
        ("surprises: encoded slashes behind dots",), {"status": "400"}),
    Intended(
        "the environment of the server cannot be read",
        "it may have secrets of the administrator or of other sites",
        ("env: PassEnv", "parser: variables of the configuration"), {"body": ANY, "field x-c": ANY}),
    Intended(
        "`SetEnv` of AUTH_TYPE and REMOTE_USER also counts as PHP_AUTH_USER",
        "PHP takes the user from these variables, as under PHP-FPM",
        ("env: names that the server uses", "env: variables of a directory reach *"), {"body": ANY}),
    Intended(
        "directives of a directory in `without_scripts` or `closed` set nothing for scripts elsewhere: an index file, a "
        "fallback, an error document or the target of a rule has no variable, user or request field of theirs",
        "who may write to a directory of uploads must not become somebody in the scripts of the site",
        ("env: variables of a directory without scripts *",), {"body": ANY}),
    Intended(
        "a request body that is too large has one answer",
        "Apache sends the error document and the output of the script together",
        ("errordocument: 405 and 400",), {"body": ANY}),
    Intended(
        "entity tags of files that were changed a moment ago are strong",
        "a validator that is weak for a second only defeats caches",
        ("expires: access and modification",), {"field etag": "strong"}),
    Intended(
        "a range of a file that would be compressed is one of the file",
        "clients cannot join ranges of a body that is compressed anew for each response",
        ("filter: the server's own types",), {"*": ANY}),
    Intended(
        "`%l` in a field is empty",
        "the load of the machine tells one site about others",
        ("headers: format strings of the time",), {"field x-load": ANY}),
    Intended(
        "`application/x-httpd-php-source` is 403",
        "source of scripts has credentials",
        ("mime: PHP's other names of handlers and types",), {"*": ANY}),
    Intended(
        "source of a file that PHP runs is 403, where a directive turns PHP off or chooses another handler for it",
        "source of scripts has credentials; who turns PHP off in a directory for uploads wants nothing to run there",
        ("core: sections of two levels and of the server", "mime: SetHandler in Files", "mime: uploads that must not run",
         "mime: SetHandler of a default handler and an unknown one", "mixed: forced types and handlers with none",
         "php: handlers and types of scripts", "php: php_flag engine off sends the source",
         "rewrite: H and T with sections and directories", "rewrite: flag H sets a handler",
         "surprises: the server's handler of PHP is merged later", "mime: handlers of a former host that switch PHP off"),
        REFUSED),
    Intended(
        "source of a file with the handler of CGI programs is 403",
        "programs are not run; where Apache has mod_cgi, nobody sees their source",
        ("core: options in every grammar",), REFUSED),
    Intended(
        "names of PHP source that PHP does not run (`.php5`, `.PHP`, `.php.txt`) are 403",
        "they are scripts of another server, or copies of scripts",
        ("mime: double extensions", "mime: the order of extensions", "mime: ForceType in sections and with expressions",
         "php: handlers and types of scripts"), REFUSED),
    Intended(
        "a handler of another server that names PHP (`application/x-lsphp84`) runs the file",
        "sites that have moved keep such lines; Apache sends the source",
        ("mime: handlers of a former host", "mime: PHP's other names of handlers and types"), {"*": ANY}),
    Intended(
        "names that begin with a dot are 404, but for `.well-known` and the files that Apache refuses",
        "`.env` and `.git` have credentials and source; shares never send them",
        ("authz: Files and FilesMatch deny", "authz: the server's denial of .ht files is overridden",
         "core: an access file of its own name is hidden in all forms", "mime: the order of extensions",
         "mime: handlers by extension, in the middle and at the end", "mixed: odd paths",
         "mixed: types by suffixes in all places of a name", "surprises: the last component decides about Files",
         "trees: WordPress with permalinks, a page cache and a security plugin"), refused(404, "Not Found")),
    Intended(
        "the redirect of a directory that is an index file has the port of `Host`",
        "Apache forgets the port in requests of its own, and clients would get to another server",
        ("dir: an index file that is a directory", "negotiation: index files with MultiViews and in odd places"), {"field location": ANY}),
    Intended(
        "entity tags have the file's own form",
        "they are those of all files that Howdah sends; variants of a page have different ones",
        ("negotiation: *", "trees: *", "autoindex: TrackModified", "core: index files and languages over levels"), {"field etag": ANY}),
    Intended(
        "PHP's virtual() is not defined",
        "a script cannot start another request in its process",
        ("php: virtual",), {"*": ANY}),
    Intended(
        "a status of a rule that is no error has Howdah's page",
        "the text of such pages is the server's own",
        ("rewrite: flag R with a status that is no redirect", "rewrite: S and N with odd values"), {"body": ANY}),
    Intended(
        "responses that could be compressed always have `Vary: Accept-Encoding`",
        "a cache may keep them, and would otherwise send one form to all clients",
        ("trees: WordPress*",), {"field vary": "Accept-Encoding"}),
    Intended(
        "the lifetime of a cookie that is the port of the test's own server",
        "the test's servers have different ports",
        ("rewrite: flag CO sets a cookie",), {"field set-cookie": ANY}),
    Intended(
        "`<IfFile>` is false for files outside of the site",
        "it would tell which files the machine has",
        ("parser: IfFile outside of the site",), {"field x-a": None, "field x-b": "not there"}),
    Intended(
        "a response that says that a page has not changed has no Content-Type",
        "caches replace the type that they have stored by it",
        ("headers: fields of the type of a page that has not changed",), {"field content-type": None}),
    Intended(
        "a range in a request for the head of a page is ignored",
        "ranges are defined for GET only (RFC 9110, 14.2)",
        ("headers: a range that RequestHeader sets",), {"*": ANY}),
    Intended(
        "rules and scripts see the path of a target in absolute form",
        "routes, the cache and the access log know a request by its path",
        ("core: targets in absolute form",), {"body": ANY}),
    Intended(
        "owners of files are numbers",
        "the router does not read the accounts of the machine",
        ("rewrite: variables of files", "expr: variables of rules and others that expressions know or not"),
        {"body": ANY, "field x-a": "0"}),
)


def covering(title, aspect, ours, table=TABLE):
    """The entry that allows a difference, or None."""
    return next((entry for entry in table if entry.covers(title, aspect, ours)), None)


def as_markdown(table=TABLE):
    """The table of docs/htaccess.md."""
    rows = ("| Howdah | reason | seen in |", "| --- | --- | --- |")
    return "\n".join(rows + tuple(
        f"| {entry.title[0].upper()}{entry.title[1:]} | {entry.reason[0].upper()}{entry.reason[1:]} | "
        + ", ".join("all cases" if case == "*" else case.replace("*", "…") for case in entry.cases) + " |"
        for entry in table)) + "\n"
