#!/bin/sh
# Installs Howdah from an unpacked archive, or removes it.
set -eu
umask 022
# With it, cd prints directories.
unset CDPATH

usage() {
    cat <<'END'
usage: ./install.sh [--prefix DIR] [--destdir DIR] [--yes] [--without-php]
       ./install.sh --uninstall [--purge] [--prefix DIR] [--destdir DIR] [--yes]

Prints every step, then asks on a terminal whether to do them.

  --prefix DIR   programs and documents go below DIR (/usr/local). DIR is in /usr or /opt: scripts in a sandbox can run
                 programs there alone. Configuration and units are always in /etc, state in /var
  --destdir DIR  puts DIR in front of all paths, as for a package. No user is made, and no service is touched
  --yes          does the steps without a question
  --without-php  installs the server although a program that runs PHP is missing for this version
  --uninstall    removes what was installed, except for changed configuration
  --purge        with --uninstall: removes configuration, sites, certificates, logs and the user, too

A changed file in /etc is never overwritten: the new one is put beside it, with .new at the end of its name.
END
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local
destdir=
yes=
mode=install
purge=
without_php=
while [ $# -gt 0 ]; do
    case $1 in
        # An empty variable of a build script must not mean this system.
        --prefix | --destdir) [ -n "${2:-}" ] || fail "$1 needs a directory" ;;
    esac
    case $1 in
        --prefix) prefix=$2 && shift ;;
        --destdir) destdir=$2 && shift ;;
        --yes) yes=1 ;;
        --without-php) without_php=1 ;;
        --uninstall) mode=uninstall ;;
        --purge) purge=1 ;;
        --help) usage && exit 0 ;;
        *) usage >&2 && fail "\"$1\" is not an option" ;;
    esac
    shift
done
case $prefix in
    *[!A-Za-z0-9/._-]* | *..* | *//* | */) fail "--prefix $prefix: use letters, digits, and the characters / . _ -, and no / at the end" ;;
    /usr | /usr/* | /opt/*) ;;
    *) fail "--prefix $prefix: use a directory in /usr or /opt, where scripts in a sandbox can run programs" ;;
esac
[ -z "$purge" ] || [ "$mode" = uninstall ] || fail "--purge goes with --uninstall"
if [ -n "$destdir" ]; then
    mkdir -p "$destdir"
    destdir=$(cd "$destdir" && pwd)
    [ "$destdir" != / ] || destdir=
fi
# One directory has all programs: they find each other there.
programs=$prefix/libexec/howdah
# Checksums and paths of the installed files, and the directories that were made for them.
manifest=$programs/installed.sha256
made=$programs/made-directories
service=
[ -n "$destdir" ] || [ ! -d /run/systemd/system ] || service=1

work=$(mktemp -d)
# Removes temporary files; those in destinations are left if the installation did not end.
clean_up() {
    while read -r file; do
        rm -f "$file"
    done <"$work/temporary"
    rm -rf "$work"
}
: >"$work/steps"
: >"$work/temporary"
trap clean_up EXIT
# dash runs the command of EXIT only if the shell ends by itself.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
step() {
    printf '%-10s %s\n' "$1" "$2" >>"$work/steps"
}

# The functions of packaging/servers.sh.
#SERVERS#

sum() {
    sha256sum <"$1" | cut -d ' ' -f 1
}

# Prints the checksum with which a file was installed; nothing if it was not.
recorded() {
    [ ! -e "$destdir$manifest" ] || sed -n "s|^\([0-9a-f]*\)  $1\$|\1|p" "$destdir$manifest" | tail -n 1
}

# Prints the files that were installed.
recorded_files() {
    [ ! -e "$destdir$manifest" ] || sed 's/^[0-9a-f]*  //' "$destdir$manifest"
}

is_changed() {
    [ "$(sum "$destdir$1")" != "$(recorded "$1")" ]
}

# Asks whether to do the steps, unless --yes has answered. Ends the program if not.
confirm() {
    cat "$work/steps"
    [ -z "$yes" ] || return 0
    if [ -t 0 ]; then
        printf 'Do this? [y/N] '
        read -r answer || answer=
        case $answer in
            y | Y | yes) return 0 ;;
        esac
        echo "Nothing was changed."
    else
        echo "Nothing was changed. To do this, add --yes."
    fi
    exit 1
}

require_root() {
    [ -n "$destdir" ] || [ "$(id -u)" -eq 0 ] || fail "this takes root; --destdir DIR needs none"
}

# Makes a directory, and notes it and its parents that are missing, so that a removal leaves none of them: make PATH
make() {
    missing=$1
    while [ ! -d "$destdir$missing" ]; do
        echo "$missing" >>"$work/made"
        missing=${missing%/*}
    done
    mkdir -p "$destdir$1"
}

# -- Installation --

# Puts a file into the tree that is installed, with the prefix in its content: stage SOURCE PATH MODE
stage() {
    mkdir -p "$work/tree${2%/*}"
    case $2 in
        /etc/*)
            sed -e "s|/usr/bin/howdah|$prefix/bin/howdah|g" -e "s|/usr/share/howdah|$prefix/share/howdah|g" \
                -e "s|/usr/share/doc/howdah|$prefix/share/doc/howdah|g" "$1" >"$work/tree$2"
            ;;
        *) cp "$1" "$work/tree$2" ;;
    esac
    chmod "$3" "$work/tree$2"
    echo "$2" >>"$work/files"
}

stage_all() {
    stage "$here/root/usr/bin/howdah" "$programs/howdah" 755
    stage "$here/root/usr/lib/howdah/howdah-sendmail" "$programs/howdah-sendmail" 755
    for program in "$here"/worker/howdah-php[0-9]*; do
        [ ! -e "$program" ] || stage "$program" "$programs/${program##*/}" 755
    done
    (cd "$here/root/usr/share" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) >"$work/shared"
    while read -r file; do
        mode=644
        [ ! -x "$here/root/usr/share/$file" ] || mode=755
        stage "$here/root/usr/share/$file" "$prefix/share/$file" "$mode"
    done <"$work/shared"
    stage "$here/root/etc/howdah/howdah.json" /etc/howdah/howdah.json 640
    stage "$here/root/etc/logrotate.d/howdah" /etc/logrotate.d/howdah 644
    for unit in howdah.service howdah.socket howdah@.service; do
        stage "$here/root/usr/lib/systemd/system/$unit" "/etc/systemd/system/$unit" 644
    done
    stage "$here/root/usr/lib/sysusers.d/howdah.conf" /etc/sysusers.d/howdah.conf 644
    stage "$here/root/usr/lib/tmpfiles.d/howdah.conf" /etc/tmpfiles.d/howdah.conf 644
}

# Fails if Howdah was installed in another way: both would have the same units, configuration and state.
refuse_another_installation() {
    [ ! -e "$destdir$manifest" ] || return 0
    unit=/lib/systemd/system/howdah.service
    for file in "$unit" "/usr$unit"; do
        [ -n "$destdir" ] || [ ! -e "$file" ] || fail "$file belongs to a package of Howdah: remove that package first"
    done
    unit=$destdir/etc/systemd/system/howdah.service
    [ -e "$unit" ] || return 0
    other=$(sed -n 's|^ExecStart=\(/.*\)/bin/howdah serve.*|\1|p' "$unit")
    [ ! -e "$destdir$other/libexec/howdah/installed.sha256" ] ||
        fail "Howdah is installed with --prefix $other: use that, or remove it first (--uninstall --prefix $other)"
}

# Writes a line "ACTION PATH" for each file to $work/plan.
plan_files() {
    while read -r file; do
        target=$destdir$file
        action=replace
        if [ ! -e "$target" ]; then
            action=install
        elif cmp -s "$work/tree$file" "$target"; then
            action=same
            # A removal leaves what another package has installed.
            [ -n "$(recorded "$file")" ] || action=other
        else
            case $file in
                /etc/*) ! is_changed "$file" || action=beside ;;
                *) [ -n "$(recorded "$file")" ] || fail "$target exists and was not installed by this script: remove it, or \
the package that it belongs to, or choose another --prefix" ;;
            esac
        fi
        echo "$action $file" >>"$work/plan"
        case $action in
            install | replace) step "$action" "$target" ;;
            beside) step keep "$target, which was changed; the new file is $target.new" ;;
        esac
    done <"$work/files"
    if [ ! -e "$destdir$prefix/bin/howdah" ] && [ ! -L "$destdir$prefix/bin/howdah" ]; then
        step link "$destdir$prefix/bin/howdah to ../libexec/howdah/howdah"
    elif [ "$(readlink "$destdir$prefix/bin/howdah")" != ../libexec/howdah/howdah ]; then
        fail "$destdir$prefix/bin/howdah exists and was not installed by this script"
    fi
    # Files of the installed version that this one does not have.
    : >"$work/dropped"
    recorded_files | grep -v '^/etc/' | while read -r file; do
        grep -qxF "$file" "$work/files" || [ ! -e "$destdir$file" ] || echo "$file" >>"$work/dropped"
    done
    while read -r file; do
        case $file in
            */howdah-php[0-9]*) [ -n "$without_php" ] || fail "$destdir$file belongs to the installed version, and there is \
no ${file##*/} of this one: build it with ./build-worker.sh, or remove it with --without-php" ;;
        esac
        step remove "$destdir$file"
    done <"$work/dropped"
}

# Prints a line of the manifest for each file with one of the actions, with the checksum of the file as it is in this
# archive: a changed one stays changed.
lines_of() {
    while read -r action file; do
        case " $* " in
            *" $action "*) echo "$(sum "$work/tree$file")  $file" ;;
        esac
    done <"$work/plan"
}

install_files() {
    : >"$work/made"
    [ ! -e "$destdir$made" ] || cp "$destdir$made" "$work/made"
    while read -r action file; do
        target=$destdir$file
        case $action in
            same | other) continue ;;
            beside) target=$target.new ;;
        esac
        make "${file%/*}"
        echo "$target.tmp" >>"$work/temporary"
        cp -p "$work/tree$file" "$target.tmp"
        echo "$target" >>"$work/targets"
    done <"$work/plan"
    make "$prefix/bin"
    make "$programs"
    for directory in /etc/howdah/sites /etc/howdah/servers; do
        [ -d "$destdir$directory" ] || { make "$directory" && chmod 750 "$destdir$directory"; }
    done
    # Before the first file: an installation that ends early can be removed, or done again.
    LC_ALL=C sort -u "$work/made" >"$destdir$made.tmp"
    mv "$destdir$made.tmp" "$destdir$made"
    [ ! -e "$destdir$manifest" ] || cp "$destdir$manifest" "$work/manifest"
    lines_of install >>"$work/manifest"
    cp "$work/manifest" "$destdir$manifest.tmp"
    mv "$destdir$manifest.tmp" "$destdir$manifest"
    # A running program keeps its file, and a configuration is never read half.
    [ ! -e "$work/targets" ] || while read -r target; do
        mv -f "$target.tmp" "$target"
    done <"$work/targets"
    ln -sfn ../libexec/howdah/howdah "$destdir$prefix/bin/howdah"
    while read -r file; do
        rm -f "$destdir$file"
    done <"$work/dropped"
    lines_of install replace beside same >"$destdir$manifest.tmp"
    mv "$destdir$manifest.tmp" "$destdir$manifest"
}

install_all() {
    require_root
    "$here/root/usr/bin/howdah" --version >/dev/null || fail "the server does not run here. It needs Linux on @ARCH@ with \
glibc @GLIBC@ or newer (ldd --version prints the version of this system), and a file system without the option noexec"
    refuse_another_installation
    stage_all
    plan_files
    for directory in /etc/howdah/sites /etc/howdah/servers; do
        [ -d "$destdir$directory" ] || step directory "$destdir$directory (mode 750)"
    done
    if [ -n "$destdir" ]; then
        step note "the user howdah, /var/lib/howdah and /var/log/howdah are left out with --destdir"
    else
        getent passwd howdah >/dev/null || step user "howdah, a system user that owns no files"
        [ -d /var/lib/howdah ] || step directory "/var/lib/howdah (mode 700)"
        [ -d /var/log/howdah ] || step directory "/var/log/howdah (mode 2750, group adm)"
        [ -z "$service" ] || step run "systemctl daemon-reload"
        [ -z "$service" ] || for_each_server plan_replacement
    fi
    ls "$here"/worker/howdah-php[0-9]* >/dev/null 2>&1 ||
        step note "there is no program that runs PHP: ./build-worker.sh builds it"
    echo "These steps install Howdah @VERSION@:"
    confirm
    install_files
    [ -n "$destdir" ] || set_up_system
    echo "Installed."
    [ -z "$service" ] || systemctl --quiet is-enabled howdah.service 2>/dev/null ||
        echo "To start the server now and at each boot: systemctl enable --now howdah"
}

plan_replacement() {
    step run "howdah upgrade --tolerant --control $2 (replaces the running $1 without losing a request)"
}

set_up_system() {
    # Of other distributions than those with systemd, too.
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers /etc/sysusers.d/howdah.conf
    elif ! getent passwd howdah >/dev/null; then
        useradd --system --no-create-home --shell /usr/sbin/nologin --comment 'Howdah web server' howdah
    fi
    [ -d /var/lib/howdah ] || { mkdir -p /var/lib/howdah && chmod 700 /var/lib/howdah; }
    [ -d /var/log/howdah ] || {
        mkdir -p /var/log/howdah
        chgrp adm /var/log/howdah 2>/dev/null || true
        chmod 2750 /var/log/howdah
    }
    # Labels of SELinux: those of programs, not of the directory in which they were made.
    ! command -v restorecon >/dev/null || restorecon -R "$programs" "$prefix/bin/howdah" || true
    [ -n "$service" ] || return 0
    systemctl daemon-reload
    PATH=$prefix/bin:$PATH
    for_each_server replace
}

# -- Removal --

uninstall_all() {
    [ -e "$destdir$manifest" ] || fail "$destdir$manifest is missing: nothing is installed with --prefix $prefix"
    require_root
    : >"$work/removed"
    : >"$work/directories"
    if [ -n "$service" ]; then
        step run "systemctl disable --now howdah.socket howdah.service and all howdah@ services"
    fi
    recorded_files >"$work/files"
    while read -r file; do
        if [ ! -e "$destdir$file" ]; then
            continue
        fi
        case $file in
            /etc/*)
                if [ -e "$destdir$file.new" ]; then
                    step remove "$destdir$file.new"
                    echo "$file.new" >>"$work/removed"
                fi
                if [ -z "$purge" ] && is_changed "$file"; then
                    step keep "$destdir$file, which was changed"
                    continue
                fi
                ;;
        esac
        step remove "$destdir$file"
        echo "$file" >>"$work/removed"
    done <"$work/files"
    if [ "$(readlink "$destdir$prefix/bin/howdah")" = ../libexec/howdah/howdah ]; then
        step remove "$destdir$prefix/bin/howdah"
        echo "$prefix/bin/howdah" >>"$work/removed"
    fi
    step remove "$destdir$manifest"
    step remove "$destdir$made"
    step remove "the directories that the installation has made, if they are empty"
    state="/etc/howdah /var/lib/howdah /var/log/howdah /var/cache/howdah"
    for directory in $state; do
        [ -e "$destdir$directory" ] || continue
        if [ -n "$purge" ]; then
            step remove "$destdir$directory and everything in it"
        else
            step keep "$destdir$directory, unless it is empty; --purge removes it"
        fi
    done
    if [ -n "$purge" ] && [ -z "$destdir" ] && getent passwd howdah >/dev/null; then
        step remove "the user howdah"
    fi
    echo "These steps remove Howdah:"
    confirm

    if [ -n "$service" ]; then
        # The socket goes first, or it would start the service again.
        systemctl stop howdah.socket howdah.service 'howdah@*.service' || true
        systemctl --quiet --no-reload disable howdah.socket howdah.service howdah@.service || true
    fi
    # The deepest directories first.
    [ ! -e "$destdir$made" ] || LC_ALL=C sort -r "$destdir$made" >"$work/directories"
    printf '%s\n' "$manifest" "$made" >>"$work/removed"
    while read -r file; do
        rm -f "$destdir$file"
    done <"$work/removed"
    if [ -n "$purge" ]; then
        for directory in $state; do
            rm -rf "$destdir$directory"
        done
        [ -n "$destdir" ] || ! getent passwd howdah >/dev/null || userdel howdah || true
    fi
    for directory in $state; do
        rmdir "$destdir$directory" 2>/dev/null || true
    done
    while read -r directory; do
        rmdir "$destdir$directory" 2>/dev/null || true
    done <"$work/directories"
    [ -z "$service" ] || systemctl daemon-reload
    echo "Removed."
}

"${mode}_all"
