"""One run: the shared database and browser, and the servers of each application."""

import contextlib
import importlib
import os
import shutil

import servers
from machine import FRAMEWORKS
from report import Stop, describe

DATABASES = {"wordpress": "wordpress", "wordpress_htaccess": "wordpress_htaccess", "wordpress_cache": "wordpress_cache",
             "adminer": "ledger", "phpmyadmin": "stable", "ttrss": "feeds"}


class Session:
    """Owns all processes of the run; leaving it ends them in any case."""

    def __init__(self, directory, options, howdah, report):
        self.directory = directory
        self.options = options
        self.howdah = howdah
        self.report = report
        self.database = None
        self.browser = None
        self.started = []

    def __enter__(self):
        try:
            databases = [DATABASES[name] for name in self.options.applications if name in DATABASES]
            if databases:
                self.database = self.own(servers.maria_db(self.directory, databases))
            if any(name not in FRAMEWORKS for name in self.options.applications):
                # Its driver exists only where a browser is needed.
                from browser import Browser
                self.browser = Browser(self.options.screenshots)
                self.report.on_failure = self.browser.shot_of_failure
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_problem):
        # Every one is stopped even when stopping another fails.
        with contextlib.ExitStack() as endings:
            for server in self.started:
                endings.callback(server.stop)
            if self.browser:
                endings.callback(self.browser.close)

    def own(self, server):
        """Takes over the duty to stop a server."""
        self.started.append(server)
        return server

    def run(self, name):
        """Runs one application's steps on servers of its own."""
        before = len(self.started)
        try:
            importlib.import_module(name).run(self)
        except Stop:
            self.report.note(f"the other steps of {name} need this one; their servers said last:")
            for server in self.started[before:]:
                for line in server.process.tail(12).splitlines():
                    self.report.note(f"    {line}")
        except Exception as problem:  # outside of any step; the other applications still have to run
            self.report.fail(f"{name}: set-up", describe(problem))
        finally:
            while len(self.started) > before:
                self.started.pop().stop()

    def tree(self, name, *sources):
        """A document root made of copies, with symbolic links resolved, that servers may write."""
        root = self.directory / name / "root"
        for source in sources:
            shutil.copytree(source, root, dirs_exist_ok=True, ignore=unreadable)
        return root

    def under_test(self, name, root, configuration=None, extra="", site=None):
        """Starts the server under test over a directory. `site` has keys that take the place of the configuration."""
        directory = self.directory / name / "tested"
        if self.howdah and self.options.sites:
            return self.own(servers.Howdah(self.howdah, directory, root, site=site or {}))
        if self.howdah:
            return self.own(servers.Howdah(self.howdah, directory, root, configuration))
        return self.own(servers.Apache(directory, root, extra))

    def oracle(self, name, root, extra=""):
        """Starts the Apache that answers are compared with."""
        return self.own(servers.Apache(self.directory / name / "oracle", root, extra))

    def note_accepted(self, comparison):
        """Prints which listed differences were met, and why they are right."""
        for entry in comparison.accepted:
            if entry.seen:
                self.report.note(f"accepted in {len(entry.seen)} answers: {entry.what} of "
                                 f"{entry.path}: {entry.reason}")


def unreadable(directory, names):
    """Files that a plain user may not copy; Debian locks a plug-in of DokuWiki away like that."""
    return [name for name in names if not os.access(os.path.join(directory, name), os.R_OK)]
