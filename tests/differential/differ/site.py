"""Builds the document roots: the committed site plus the files that version control holds badly.

Two of them are served: `front` has a front controller, `plain` has an index.html instead.
"""

import gzip
import os
import shutil
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "site"
# Every file has this time, so that Last-Modified can be asked for.
MODIFIED = 1_700_000_000

KINDS = (
    "hello.txt", "page.html", "page.htm", "style.css", "app.js", "module.mjs", "data.json", "feed.xml", "image.png",
    "photo.jpg", "photo.jpeg", "anim.gif", "icon.svg", "favicon.ico", "image.webp", "image.avif", "font.woff",
    "font.woff2", "font.ttf", "doc.pdf", "archive.zip", "archive.tar.gz", "video.mp4", "video.webm", "audio.mp3",
    "audio.ogg", "app.wasm", "site.webmanifest", "table.csv", "text.md", "program.exe", "odd.xyzzy", "noextension",
    "UPPER.TXT", "captions.vtt", "rss.rss", "atom.atom", "package.rpm", "source.map", "app.xhtml", "library.inc",
)

ODD_NAMES = (
    b"with space.txt", "\u00fcn\u00ef.txt".encode(), b"latin\xfc.txt", b"plus+plus.txt", b"percent%41.txt",
    b"semi;colon.txt", b"question?mark.txt", b"hash#mark.txt", b"back\\slash.txt", b"comma,.txt", b"quote'.txt",
    b'double".txt', b"colon:.txt", b"angle<>.txt", b"dots...txt", b"tilde~.txt", b"amp&.txt", b"at@.txt", b"a=b.txt",
    b"star*.txt", b"brace{}.txt", b"line\nfeed.txt", b"tab\t.txt", "\u0130.txt".encode(),
)

# Copies of scripts as editors and hands leave them, and names that only look like scripts.
COPIES = (
    b"copy.php~", b"copy.php.bak", b"copy.phps", b"COPY.PHP", b"copy.php.swp", b".copy.php.swp", b"copy.php.old",
    b"copy.php.", b"copy.php ", b"#copy.php#", b"copy.php.txt", "copy.\uff50\uff48\uff50".encode(),
    "copy\ufe52php".encode(), "\u023a.txt.PHP".encode(), b"copy.php5", b"copy.pht",
)

HIDDEN = (
    ".env", ".git/config", ".htaccess", ".htpasswd", ".DS_Store", ".hidden/file.txt", ".well-known/acme-challenge/token",
    ".well-known/.secret", "docs/.git/HEAD",
)

SECRET = b"<?php echo 'this is source'; // secret-in-source\n"


def build(where):
    """Makes the document roots below a directory and returns them by name."""
    roots = {}
    sessions = where / "sessions"
    sessions.mkdir()
    sessions.chmod(0o1777)
    outside = where / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("outside of the document root\n")
    for name in ("front", "plain"):
        root = where / name
        shutil.copytree(SOURCE, root)
        furnish(root, outside)
        if name == "plain":
            (root / "index.php").unlink()
            (root / "index.html").write_text("<!doctype html><title>Plain</title>\n")
        settle(root)
        roots[name] = root
    settle(outside)
    return roots


def furnish(root, outside):
    for name in KINDS:
        (root / name).write_text(f"This is {name}.\n")
    (root / "empty.txt").write_bytes(b"")
    (root / "thousand.txt").write_bytes(b"".join(b"%09d\n" % n for n in range(100)))
    (root / "large.bin").write_bytes(bytes(range(256)) * (3 << 12))
    place = os.fsencode(root)
    for name in ODD_NAMES:
        write(place, name, b"Odd name.\n")
    for name in COPIES:
        write(place, name, SECRET)
    for name in HIDDEN:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == ".htaccess" else f"This is {name}.\n")
    (root / "packed.css").write_bytes(b"a{}\n" * 500)
    (root / "packed.css.gz").write_bytes(gzip.compress(b"a{}\n" * 500, mtime=0))
    for name in ("empty-dir", "no-index", "with space dir", "deep/er/est", "dir.php"):
        (root / name).mkdir(parents=True)
    for name in ("no-index/file.txt", "with space dir/index.html", "deep/er/est/file.txt", "dir.php/file.txt"):
        (root / name).write_text(f"This is {name}.\n")
    shutil.copy(root / "probe.php", root / "space script.php")
    shutil.copy(root / "probe.php", root / "a.php.b.php")
    links = {
        "link.txt": "hello.txt", "linked-dir": "docs", "link.php": "probe.php", "broken.txt": "nowhere",
        "loop.txt": "loop.txt", "outside.txt": str(outside / "secret.txt"), "outside-dir": str(outside),
        "script-as.txt": "probe.php", "text-as.php": "hello.txt",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe.txt")


def write(place, name, content):
    with open(os.path.join(place, name), "wb") as file:
        file.write(content)


def settle(root):
    """Fixed times, and readable by every user."""
    for folder, _, files in os.walk(os.fsencode(root)):
        os.chmod(folder, 0o755)
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o644)
                os.utime(path, (MODIFIED, MODIFIED))
    for folder, _, _ in os.walk(os.fsencode(root)):
        os.utime(folder, (MODIFIED, MODIFIED))
