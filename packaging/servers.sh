# Functions for the scripts of the Debian and RPM packages, and for install.sh of the tarball. packaging/deb, packaging/rpm
# and packaging/tarball insert there what follows the first empty line.
# $invoke is the command that starts a unit: deb-systemd-invoke on Debian, otherwise systemctl.
# shellcheck shell=sh

# Calls a function for each server that runs: its unit, and the address of its control API.
for_each_server() {
    [ -d /run/systemd/system ] || return 0
    units=$(systemctl list-units --plain --no-legend --state=active --type=service \
        howdah.service 'howdah@*.service' | cut -d ' ' -f 1)
    for unit in $units; do
        name=${unit#howdah}
        name=${name#@}
        name=${name%.service}
        "$1" "$unit" "unix:/run/howdah${name:+/$name}/control.sock"
    done
}

# Replaces the program of a server. Whatever keeps the new one from running, the old one goes on, and the
# installation succeeds.
replace() {
    tries=30
    while ! problem=$(howdah upgrade --tolerant --control "$2" 2>&1); do
        case $problem in
            # An upgrade shortly before, or one in progress.
            *'still finishes requests'* | *'in progress already'*) tries=$((tries - 1)) ;;
            *) tries=0 ;;
        esac
        if [ "$tries" -le 0 ]; then
            echo "$1 was not upgraded and goes on with the program that it runs: $problem" >&2
            echo "$1: to upgrade it later: howdah upgrade --control $2" >&2
            return 0
        fi
        sleep 2
    done
}

# Ends the processes of PHP when they have answered their requests; new ones have the new files.
restart_applications() {
    if ! problem=$(howdah restart --all --control "$2" 2>&1); then
        echo "$1: applications run with the files of PHP that they have loaded: $problem" >&2
        echo "$1: to restart them later: howdah restart --all --control $2" >&2
    fi
}

# Starts a unit if it is enabled. A server that does not start is no failure of the installation.
start() {
    [ -d /run/systemd/system ] && systemctl --quiet is-enabled "$1" 2>/dev/null || return 0
    # Not an error: Debian's policy-rc.d may forbid it.
    "${invoke:-systemctl}" start "$1" >/dev/null 2>&1 || true
    if systemctl --quiet is-failed "$1"; then
        reason=$(systemctl show --property StatusText --value "$1" 2>/dev/null)
        echo "$1 is installed but does not run: ${reason:-see journalctl -u $1}" >&2
        echo "$1: when that is mended: systemctl start $1" >&2
    fi
}

# Starts all units that are enabled.
start_enabled() {
    # The service takes the sockets of the socket unit only if that was started before.
    start howdah.socket
    start howdah.service
    for unit in /etc/systemd/system/multi-user.target.wants/howdah@*.service; do
        [ ! -L "$unit" ] || start "${unit##*/}"
    done
}
