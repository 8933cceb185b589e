"""The programs that Howdah is compared with, for all suites in Python: how they are found, started, addressed, awaited and ended.

    processes   a program in a session of its own, and several of them
    ports       free ports
    apache, nginx, fpm, mariadb   the part of a configuration that all suites share, and the command

A suite adds the subject of its own comparison. As root, programs serve as `www-data`, otherwise as the user.
"""

from .ports import free_port  # noqa: F401
from .processes import Process, Programs, Unusable, accepts, php, plain_user, user_id, wait_for  # noqa: F401
