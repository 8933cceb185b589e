"""Howdah behind the real nginx and Apache."""


def run(options, programs, work, site, sockets):
    return 0, 0
