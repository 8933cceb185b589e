/* What all parts of the attacker use. */
#ifndef ATTACKER_H
#define ATTACKER_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* A process under attack. */
struct target {
    const char *name;
    pid_t pid;
    /* Text that its command line contains. */
    const char *title;
};

/* A file, directory, socket or number under attack. */
struct thing {
    const char *name;
    const char *value;
};

/* One attempt: returns 0 or more if it succeeds, otherwise -1 and errno. It runs in a process of its
   own, so that it may change what it likes of itself, and may put what it has found into `detail`. */
typedef long (*attempt)(const struct target *target);
typedef long (*thing_attempt)(const struct thing *thing);

struct named_attempt {
    const char *name;
    attempt run;
};

struct named_thing_attempt {
    const char *name;
    thing_attempt run;
};

#define DETAIL_BYTES 400
extern char detail[DETAIL_BYTES];
void add_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line of the report. */
void report(const char *kind, const char *name, const char *target, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Run attempts and report how they end. `kind` groups them for whoever judges. */
void try_all(const char *kind, const struct named_attempt *attempts, size_t count, const struct target *target);
void try_things(const char *kind, const struct named_thing_attempt *attempts, size_t count,
                const struct thing *thing);

/* What is known of processes. */
int read_file(const char *path, char *buffer, size_t size);
char state_of(pid_t pid);
pid_t parent_of(pid_t pid);
int has_title(const struct target *target);
/* Opens a file below the directory of a process in /proc. */
int open_proc(pid_t pid, const char *name, int flags);
long fail(int error);

/* Secrets are known by hashes of 32 bytes, so that this program does not find itself. */
#define SECRET_BYTES 32
#define MAX_SECRETS 8
extern uint64_t secrets[MAX_SECRETS];
extern size_t secret_count;

/* A directory that only root may enter, if there is one. */
extern const char *forbidden_directory;

/* The user that this program began as. */
extern uid_t first_uid;
extern gid_t first_gid;
/* Becomes the root of a user namespace of its own. */
long become_root_of_namespace(void);

/* The parts. */
void attack_memory(const struct target *target);      /* inspect.c */
void attack_proc_files(const struct target *target);  /* inspect.c */
void attack_signals(const struct target *target);     /* signals.c */
void attack_life(const struct target *target);        /* signals.c */
void attack_everybody(const struct target *targets, size_t count);
void attack_priorities(const struct target *target);  /* priorities.c */
void attack_namespaces(const struct target *target);  /* namespaces.c */
void attack_mounts(void);                             /* namespaces.c */
void attack_file(const struct thing *file);           /* files.c */
void attack_directory(const struct thing *directory); /* files.c */
void attack_socket(const struct thing *socket);       /* sockets.c */
void attack_tcp(const struct thing *address);         /* sockets.c */
void attack_all_sockets(void);                        /* sockets.c */
void attack_identity(void);                           /* identity.c */
void attack_user(const struct thing *user);           /* identity.c */
void attack_terminals(void);                          /* identity.c */
void attack_memory_of_ipc(const struct thing *key);   /* ipc.c */
void attack_shared_file(const struct thing *name);    /* ipc.c */
void attack_keys(void);                               /* ipc.c */
void attack_inherited(void);                          /* descriptors.c */
void attack_own_descriptors(pid_t worker);            /* descriptors.c */
void flood_supervisor(const struct target *prototype);/* descriptors.c */
void forge_request(const struct target *router);      /* descriptors.c */
void attack_user_limits(void);                        /* limits.c */
long uring_open(const char *path);                    /* uring.c */
long uring_connect(int fd, const void *address, unsigned length);

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif
