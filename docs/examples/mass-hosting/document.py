#!/usr/bin/env python3
"""Prints the document for the sites below a directory, each of which has its own application.

    document.py DIRECTORY [USER] > howdah.json

An application without requests takes no memory: PHP is loaded for the first request of a site, and unloaded when the
site is not used.
"""

import json
import sys
from pathlib import Path


def document(directory, user):
    sites = sorted(path.name for path in directory.iterdir() if (path / "public").is_dir())
    routes, applications = [], {}
    for site in sites:
        root = f"{directory}/{site}/public"
        # A script is run under its own name; everything else without a file goes to index.php.
        routes += [{
            "match": {"host": [site, f"www.{site}"], "uri": "*.php"},
            "action": {"share": f"{root}$uri", "scripts": f"applications/{site}/direct", "fallback": {"return": 404}},
        }, {
            "match": {"host": [site, f"www.{site}"]},
            "action": {
                "share": f"{root}$uri",
                "index": ["index.php", "index.html"],
                "scripts": f"applications/{site}/direct",
                "fallback": {"pass": f"applications/{site}/front"},
            },
        }]
        applications[site] = {
            "type": "php",
            "user": user,
            "targets": {"direct": {"root": root}, "front": {"root": root, "script": "index.php"}},
        }
    return {"listeners": {"*:80": {"pass": "routes"}}, "routes": routes, "applications": applications}


if __name__ == "__main__":
    where, user = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "www-data"
    print(json.dumps(document(where, user), indent=4))
