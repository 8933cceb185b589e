#!/bin/sh
# Makes sure that Debian packages are installed: tools/require.sh PACKAGE...
# A name that contains X.Y stands for one package for each version of PHP that tools/php.sh chooses.
# Does nothing (and takes a few milliseconds) when they are; installs the missing ones through apt
# as root; otherwise prints the exact command to type and fails.
set -eu

case "$*" in
    *X.Y*)
        names=$("$(dirname "$0")/php.sh" packages "$@")
        # shellcheck disable=SC2086 # a list of package names
        set -- $names
        ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian; what is needed is called there: $*" >&2
    exit 0
fi

missing=
for package in "$@"; do
    # With two architectures installed it says so twice.
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) in
        installed*) ;;
        *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "Missing packages. Install them with:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi

echo "Installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# A package that brings a service must not start it: its port may be in use, and it is not asked for.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# A machine that has just started may be updating itself: wait for that.
apt() {
    apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}
apt update
# shellcheck disable=SC2086 # a list of package names
apt install -y --no-install-recommends $missing >/dev/null
