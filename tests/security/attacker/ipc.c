/* Memory, queues, semaphores and keys that processes share by name. */
#define _GNU_SOURCE
#include "attacker.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

/* ----- System V: another site has made one of each under this number */

static key_t number_of(const struct thing *key) { return (key_t)strtol(key->value, NULL, 10); }

static long attach_memory(const struct thing *key)
{
    int id = shmget(number_of(key), 0, 0);
    return id < 0 ? -1 : (shmat(id, NULL, 0) == (void *)-1 ? -1 : 0);
}

static long attach_memory_to_read(const struct thing *key)
{
    int id = shmget(number_of(key), 0, 0);
    return id < 0 ? -1 : (shmat(id, NULL, SHM_RDONLY) == (void *)-1 ? -1 : 0);
}

static long remove_memory(const struct thing *key)
{
    int id = shmget(number_of(key), 0, 0);
    return id < 0 ? -1 : shmctl(id, IPC_RMID, NULL);
}

static long use_queue(const struct thing *key)
{
    struct {
        long type;
        char text[8];
    } message = {1, "x"};
    int id = msgget(number_of(key), 0);
    return id < 0 ? -1 : msgsnd(id, &message, 1, IPC_NOWAIT);
}

static long remove_queue(const struct thing *key)
{
    int id = msgget(number_of(key), 0);
    return id < 0 ? -1 : msgctl(id, IPC_RMID, NULL);
}

static long use_semaphore(const struct thing *key)
{
    struct sembuf operation = {0, 1, IPC_NOWAIT};
    int id = semget(number_of(key), 0, 0);
    return id < 0 ? -1 : semop(id, &operation, 1);
}

static long remove_semaphore(const struct thing *key)
{
    int id = semget(number_of(key), 0, 0);
    return id < 0 ? -1 : semctl(id, 0, IPC_RMID);
}

void attack_memory_of_ipc(const struct thing *key)
{
    static const struct named_thing_attempt attempts[] = {
        {"shmat", attach_memory},
        {"shmat SHM_RDONLY", attach_memory_to_read},
        {"msgsnd", use_queue},
        {"semop", use_semaphore},
        {"shmctl IPC_RMID", remove_memory},
        {"msgctl IPC_RMID", remove_queue},
        {"semctl IPC_RMID", remove_semaphore},
    };
    try_things("ipc", attempts, LENGTH(attempts), key);
}

/* ----- POSIX */

static long open_shared(const struct thing *name) { return shm_open(name->value, O_RDWR, 0); }
static long remove_shared(const struct thing *name) { return shm_unlink(name->value); }
static long open_queue(const struct thing *name) { return mq_open(name->value, O_RDWR | O_NONBLOCK); }

void attack_shared_file(const struct thing *name)
{
    static const struct named_thing_attempt attempts[] = {
        {"shm_open", open_shared},
        {"mq_open", open_queue},
        {"shm_unlink", remove_shared},
    };
    try_things("ipc", attempts, LENGTH(attempts), name);
}

/* ----- keys of the kernel */

static long read_keys_of_others(const struct target *unused)
{
    char line[512], secret[64];
    int error = ENOENT;
    FILE *keys = fopen("/proc/keys", "r");
    (void)unused;
    if (!keys)
        return fail(errno == ENOENT ? ENOSYS : errno);
    while (fgets(line, sizeof line, keys)) {
        unsigned id;
        int owner;
        if (sscanf(line, "%x %*s %*s %*s %*s %d", &id, &owner) != 2 || owner == (int)getuid())
            continue;
        if (syscall(SYS_keyctl, KEYCTL_READ, id, secret, sizeof secret) >= 0)
            return 0;
        error = errno;
    }
    fclose(keys);
    return fail(error);
}

static long own_keyring(const struct target *unused)
{
    (void)unused;
    return syscall(SYS_add_key, "user", "attacker", "x", 1UL, KEY_SPEC_PROCESS_KEYRING);
}

void attack_keys(void)
{
    static const struct named_attempt others[] = {{"keyctl KEYCTL_READ", read_keys_of_others}};
    static const struct named_attempt own[] = {{"add_key", own_keyring}};
    try_all("identity", others, LENGTH(others), NULL);
    try_all("self", own, LENGTH(own), NULL);
}
