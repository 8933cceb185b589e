/* Files and directories that are the administrator's: logs, state, certificates, keys. */
#define _GNU_SOURCE
#include "attacker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* ----- files */

static long open_to_read(const struct thing *file) { return open(file->value, O_RDONLY | O_NONBLOCK); }
static long open_to_append(const struct thing *file) { return open(file->value, O_WRONLY | O_APPEND | O_NONBLOCK); }
static long open_to_cut(const struct thing *file) { return truncate(file->value, 0); }
static long change_mode(const struct thing *file) { return chmod(file->value, 0666); }
static long change_owner(const struct thing *file) { return chown(file->value, getuid(), (gid_t)-1); }
static long open_by_ring(const struct thing *file) { return uring_open(file->value); }

static long open_in_namespace(const struct thing *file)
{
    return become_root_of_namespace() != 0 ? -1 : open(file->value, O_RDONLY | O_NONBLOCK);
}

static long give_another_name(const struct thing *file)
{
    return linkat(AT_FDCWD, file->value, AT_FDCWD, "data/link-of-the-attacker", 0);
}

static long move_away(const struct thing *file) { return rename(file->value, "data/moved-by-the-attacker"); }

/* A handle leads to a file without its directories. */
static long open_by_handle(const struct thing *file)
{
    struct {
        struct file_handle handle;
        unsigned char bytes[MAX_HANDLE_SZ];
    } space = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount, root = open("/", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, file->value, &space.handle, &mount, 0) != 0)
        return -1;
    return open_by_handle_at(root, &space.handle, O_RDONLY);
}

void attack_file(const struct thing *file)
{
    static const struct named_thing_attempt attempts[] = {
        {"open to read", open_to_read},
        {"open to append", open_to_append},
        {"truncate", open_to_cut},
        {"chmod", change_mode},
        {"chown", change_owner},
        {"link", give_another_name},
        {"open by io_uring", open_by_ring},
        {"open as root of a user namespace", open_in_namespace},
        {"open_by_handle_at", open_by_handle},
        {"rename", move_away},
    };
    try_things("file", attempts, LENGTH(attempts), file);
}

/* ----- directories */

static long list(const struct thing *directory) { return opendir(directory->value) ? 0 : -1; }

static long make_file(const struct thing *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/made-by-the-attacker", directory->value);
    return open(path, O_CREAT | O_WRONLY, 0666);
}

static long make_link(const struct thing *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/link-of-the-attacker", directory->value);
    return symlink("/etc/passwd", path);
}

static long watch(const struct thing *directory)
{
    return inotify_add_watch(inotify_init1(IN_CLOEXEC), directory->value, IN_ALL_EVENTS);
}

static long watch_by_fanotify(const struct thing *directory)
{
    int group = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
    if (group < 0)
        return -1;
    return fanotify_mark(group, FAN_MARK_ADD, FAN_MODIFY | FAN_CREATE | FAN_EVENT_ON_CHILD, AT_FDCWD, directory->value);
}

void attack_directory(const struct thing *directory)
{
    static const struct named_thing_attempt attempts[] = {
        {"list", list},          {"make a file in", make_file},     {"make a link in", make_link},
        {"inotify_add_watch", watch}, {"fanotify_mark", watch_by_fanotify},
    };
    try_things("file", attempts, LENGTH(attempts), directory);
}
