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

TABLE = (
    Intended(
        "the password hashes of crypt(3) with DES are not accepted",
        "DES hashes see eight characters of a password and are broken within hours",
        ("auth_basic: every kind of password hash",), {"*": ANY}),
    Intended(
        "`Require host` matches nobody",
        "the name that an address resolves to would have to be asked for before each answer; addresses are exact",
        ("authz: local and addresses",), {"*": ANY}),
    Intended(
        "a request for the head of a listing has Content-Length 0",
        "the listing is not made for it",
        ("*",), {"field content-length": "0"}),
    Intended(
        "CONNECT is refused by the parser",
        "its target has another form (RFC 9110, 9.3.6)",
        ("core: methods on a file",), {"*": ANY}),
    Intended(
        "an encoded NUL in a path is refused by the parser",
        "no file can have such a name",
        ("core: queries and odd characters", "rewrite: NUL in a path"), {"status": "400"}),
    Intended(
        "parts of several ranges begin without an empty line",
        "the preamble is optional (RFC 2046, 5.1.1)",
        ("core: ranges",), {"body": ANY}),
    Intended(
        "the environment of the server cannot be read",
        "it may have secrets of the administrator or of other sites",
        ("env: PassEnv", "parser: variables of the configuration"), {"body": ANY, "field x-c": ANY}),
    Intended(
        "`SetEnv` of AUTH_TYPE and REMOTE_USER also counts as PHP_AUTH_USER",
        "PHP takes the user from these variables, as under PHP-FPM",
        ("env: names that the server uses",), {"body": ANY}),
    Intended(
        "a body that is too large is answered once",
        "Apache sends the error document and the output of the script together",
        ("errordocument: 405 and 400",), {"body": ANY}),
    Intended(
        "entity tags of files that were changed a moment ago are strong",
        "the file is not cached until a change would show",
        ("expires: access and modification",), {"field etag": "strong"}),
    Intended(
        "a range of a file that would be compressed is one of the file",
        "ranges of compressed content cannot be joined",
        ("filter: the server's own types",), {"*": ANY}),
    Intended(
        "the load of the machine is not told",
        "it is the administrator's",
        ("headers: format strings of the time",), {"field x-load": ANY}),
    Intended(
        "source is not shown in colours",
        "scripts are run or sent",
        ("mime: PHP's other names of handlers and types",), {"*": ANY}),
    Intended(
        "entity tags have the file's own form",
        "variants of a page have different ones",
        ("negotiation: *", "trees: *", "autoindex: TrackModified"), {"field etag": ANY}),
    Intended(
        "PHP's virtual() is not defined",
        "a script cannot start another request",
        ("php: virtual",), {"*": ANY}),
    Intended(
        "a status of a rule that is no error has Howdah's page",
        "each server has its own pages",
        ("rewrite: flag R with a status that is no redirect",), {"body": ANY}),
    Intended(
        "dates with a wrong day of the week are ignored",
        "they are no valid dates (RFC 9110, 5.6.7)",
        ("rewrite: a rewritten file with conditions and ranges",), {"status": "200", "body": ANY}),
    Intended(
        "`IndexIgnoreReset` also drops the names that the server itself leaves out",
        "it says so",
        ("autoindex: IndexIgnore and IndexIgnoreReset",), {"body": ANY}),
    Intended(
        "`IndexOptions` with a plus sign keep the form of the listing above",
        "an addition takes nothing away",
        ("autoindex: IndexOptions below add and replace",), {"body": ANY}),
    Intended(
        "`DefaultLanguage none` counts where `RemoveLanguage` has removed a suffix",
        "the file has no other language then",
        ("mime: AddLanguage, DefaultLanguage, RemoveLanguage",), {"field content-language": "none"}),
    Intended(
        "responses that could be compressed always have `Vary: Accept-Encoding`",
        "a cache may keep them",
        ("trees: WordPress*",), {"field vary": "Accept-Encoding"}),
    Intended(
        "the lifetime of a cookie that is the port of the test's own server",
        "each server has a port of its own",
        ("rewrite: flag CO sets a cookie",), {"field set-cookie": ANY}),
    Intended(
        "owners of files are numbers",
        "the accounts of the machine are the administrator's",
        ("rewrite: variables of files", "expr: variables of rules and others that expressions know or not"),
        {"body": ANY, "field x-a": "0"}),
)


def covering(title, aspect, ours, table=TABLE):
    """The entry that allows a difference, or None."""
    return next((entry for entry in table if entry.covers(title, aspect, ours)), None)
