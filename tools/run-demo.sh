#!/bin/sh
# Serves the demo in the foreground: tools/run-demo.sh HOWDAH ADDRESS
# Sees to it that the user PHP runs as can read the site and write in its var/.
set -eu

howdah=$1
address=$2
demo=$(cd "$(dirname "$0")/../demo" && pwd)

if [ "$(id -u)" -ne 0 ]; then
    if ! mkdir -p "$demo/var" 2>/dev/null || ! [ -w "$demo/var" ]; then
        echo "You may not write in $demo/var, where the guestbook is kept. Take it over with:" >&2
        echo "    sudo mkdir -p $demo/var && sudo chown -R $(id -un) $demo/var" >&2
        exit 1
    fi
    exec "$howdah" serve "$demo" --listen "$address"
fi

# As root, Howdah serves as the first of these that exists.
for user in www-data apache http nobody; do
    id "$user" >/dev/null 2>&1 && break
done
as_user() {
    setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
}

if as_user test -r "$demo/public/index.php" -a -r "$demo/src/App.php"; then
    mkdir -p "$demo/var"
    chown -Rh "$user:" "$demo/var"
    exec "$howdah" serve "$demo" --listen "$address"
fi

# Such as below /root: a copy that the user can read. Nobody but this script knows its name, so
# nobody can have prepared it.
copy=$(mktemp -d "${TMPDIR:-/tmp}/howdah-demo.XXXXXX")
trap 'rm -rf "$copy"' EXIT
echo "The user $user cannot read $demo, so a copy in $copy is served." >&2
echo "What visitors write is lost at the end. To keep it, move this directory out of closed ones." >&2
for part in public src templates seed; do
    cp -R "$demo/$part" "$copy"
done
chmod -R u=rwX,go=rX "$copy"
mkdir "$copy/var"
chown "$user:" "$copy/var"

"$howdah" serve "$copy" --listen "$address" &
server=$!
trap 'kill "$server" 2>/dev/null || true' INT TERM HUP
# A signal ends the first wait early; the second one has the server's own status.
status=0
wait "$server" || status=$?
if kill -0 "$server" 2>/dev/null; then
    status=0
    wait "$server" || status=$?
fi
exit "$status"
