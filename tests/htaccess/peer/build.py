"""Writes trees of files below a document root."""

import os
import pwd


def place(case, root):
    """The directory of a case."""
    return root / case.base.lstrip("/") if case.base else root


def write(case, root):
    """Writes the files of a case. Links come last, and times of directories after their files."""
    top = place(case, root)
    make_directory(top)
    words = ((b"{base}", case.base.encode()), (b"{case}", str(top).encode()), (b"{root}", str(root).encode()))
    directories = {top}
    for entry in case.entries:
        path = os.path.join(os.fsencode(top), hexed_name(entry.name))
        make_directory(os.path.dirname(path))
        if entry.link:
            link = entry.link.replace("{case}", str(top)).replace("{root}", str(root))
            os.symlink(link, path)
            own(path, entry.owner, entry.mtime, follow=False)
            continue
        if entry.is_directory:
            make_directory(path)
        else:
            content = entry.content
            for mark, value in words:
                content = content.replace(mark, value)
            with open(path, "wb") as file:
                file.write(content)
        if entry.mode is not None:
            os.chmod(path, entry.mode)
        own(path, entry.owner, entry.mtime)
    for folder, _, _ in os.walk(top, topdown=False):
        directories.add(folder)
    for folder in directories:
        os.utime(folder, (1704164645, 1704164645))


def hexed_name(name):
    """The bytes of a file name, in which `%XX` stands for a byte."""
    from urllib.parse import unquote_to_bytes
    return unquote_to_bytes(name)


def make_directory(path):
    os.makedirs(path, mode=0o755, exist_ok=True)


def own(path, owner, mtime, follow=True):
    if owner and os.geteuid() == 0:
        account = pwd.getpwnam(owner)
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=follow)
    os.utime(path, (mtime, mtime), follow_symlinks=follow)
