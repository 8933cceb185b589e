#!/bin/sh
# Chooses the versions of PHP that are built and tested.
#
#   tools/php.sh list               a line for each: its version (8.4) and its php-config
#   tools/php.sh version            the version of the first, with which the tests run
#   tools/php.sh config             its php-config
#   tools/php.sh packages NAME...   the names; one that contains X.Y once for each version
#
# The variable PHP names versions, or paths of php-config for a PHP that is no package:
# PHP=8.2,8.4 or PHP=/opt/php84/bin/php-config. Without it, the version is that of php-config in
# PATH, or the newest that the system offers as packages.
set -eu

fail() {
    echo "$*" >&2
    exit 1
}

# The newest PHP among the packages that apt knows, installed or not.
newest_offered() {
    command -v apt-cache >/dev/null || return 0
    apt-cache search --names-only '^libphp[0-9]+\.[0-9]+-embed$' | sed 's/^libphp//; s/-embed .*//' \
        | sort -t . -k 1,1n -k 2,2n | tail -n 1
}

# "8.4.21-dev" becomes "8.4".
version_of() {
    "$1" --version 2>/dev/null | sed -n 's/^\([0-9]\{1,\}\.[0-9]\{1,\}\)\..*/\1/p'
}

# The line of one item of the list.
describe() {
    case $1 in
        */* | php-config*)
            version=$(version_of "$1")
            [ -n "$version" ] || fail "PHP: \"$1\" is not a php-config that runs."
            # Cargo runs it in another directory.
            case $1 in
                [!/]*/*) echo "$version $PWD/$1" ;;
                *) echo "$version $1" ;;
            esac
            ;;
        [0-9]*.[0-9]*)
            case $1 in *[!0-9.]* | *.*.*) fail "PHP: \"$1\" is not a version; write it as 8.4." ;; esac
            config=php-config$1
            # Other distributions than Debian's have one PHP, without a number in its name.
            if ! command -v "$config" >/dev/null && [ "$(version_of php-config)" = "$1" ]; then
                config=php-config
            fi
            echo "$1 $config"
            ;;
        *) fail "PHP: \"$1\" is neither a version, such as 8.4, nor the path of a php-config." ;;
    esac
}

list() {
    chosen=${PHP:-${PHP_CONFIG:-}}
    if [ -z "$chosen" ] && command -v php-config >/dev/null; then
        chosen=php-config
    fi
    [ -n "$chosen" ] || chosen=$(newest_offered)
    if [ -z "$chosen" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        # A new system has no lists of packages.
        apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
        chosen=$(newest_offered)
    fi
    [ -n "$chosen" ] || fail "No PHP was found. Debian: run apt-get update as root. Other systems: install PHP's \
headers and its embed library, so that php-config is in PATH, or name it: make PHP=/path/to/php-config"
    for item in $(echo "$chosen" | tr ',' ' '); do
        describe "$item"
    done
}

packages() {
    chosen=$(list) || exit 1
    for name in "$@"; do
        case $name in
            *X.Y*)
                echo "$chosen" | while read -r version config; do
                    package "$name" "$version" "$config"
                done
                ;;
            *) echo "$name" ;;
        esac
    done
}

# Prints the name of a package for one PHP, if this PHP consists of packages and has that one.
package() {
    case $3 in
        php-config[0-9]*) ;;
        *) [ "$("$3" --prefix)" = /usr ] || return 0 ;;
    esac
    case "$1 $2" in
        # OPcache is a part of PHP 8.5 and later ones.
        *-opcache\ 8.[0-4]) ;;
        *-opcache\ *) return 0 ;;
    esac
    echo "${1%X.Y*}$2${1#*X.Y}"
}

case ${1:-} in
    list) list ;;
    version) list | { read -r version _ && echo "$version"; } ;;
    config) list | { read -r _ config && echo "$config"; } ;;
    packages) shift && packages "$@" ;;
    *) fail "usage: tools/php.sh list | version | config | packages NAME..." ;;
esac
