#!/bin/sh
# Starts a machine for tests over a root file system: boot.sh ROOT WORKDIR INIT...
# Called in new namespaces (mount, pid, uts, ipc, cgroup) by machine.py and tests/operations/systemd.rs.
# Changes go to memory and end with the machine; ROOT stays as it is, and may be that of the real machine.
# INIT is systemd, or a program that waits. The variable PROGRAMS names a directory with howdah and
# howdah-php, which the machine gets under the same name and in its PATH.
set -eu

# Machines that run at the same time must not share the control groups of their units.
if [ "$1" != --in-group ]; then
    groups=$2/groups
    mkdir "$groups"
    mount -t cgroup2 none "$groups"
    for old in "$groups"/howdah-machine-*; do
        # Of a machine that has ended; its children are listed after their own.
        if grep -qs 'populated 0' "$old/cgroup.events"; then
            find "$old" -depth -type d -exec rmdir {} + 2>/dev/null || true
        fi
    done
    # Another machine may take a new one for one of those, and remove it.
    tries=0
    until own=$(mktemp -d "$groups/howdah-machine-XXXXXX") && echo 0 2>/dev/null >"$own/cgroup.procs"; do
        tries=$((tries + 1))
        [ "$tries" -lt 10 ] || { echo "$0: a control group cannot be made or entered in $groups" >&2; exit 1; }
    done
    umount -l "$groups"
    exec unshare --cgroup "$0" --in-group "$@"
fi

lower=$2 work=$3
shift 3
root=$work/root
mkdir -p "$work/data" "$root"
mount -t tmpfs -o mode=755 tmpfs "$work/data"
mkdir "$work/data/upper" "$work/data/work"
mount -t overlay -o "lowerdir=$lower,upperdir=$work/data/upper,workdir=$work/data/work" overlay "$root"

mount -t proc proc "$root/proc"
# Settings of the kernel belong to the real machine.
for name in sys sysrq-trigger; do
    [ -e "$root/proc/$name" ] || continue
    mount --bind "$root/proc/$name" "$root/proc/$name"
    mount -o remount,bind,ro "$root/proc/$name"
done
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
: >"$root/etc/machine-id"
: >"$root/etc/fstab"

if [ -n "${PROGRAMS:-}" ]; then
    # Where they are, in /tmp for example, services may not see them.
    mkdir -p "$root/usr/libexec/howdah"
    mount --bind "$PROGRAMS" "$root/usr/libexec/howdah"
    ln -sf /usr/libexec/howdah/howdah "$root/usr/bin/howdah"
fi
# In a network namespace of its own nobody else does so.
if command -v ip >/dev/null; then ip link set lo up; fi

cd "$root"
mkdir .old
pivot_root . .old
umount -l /.old
rmdir /.old
exec env -i container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
