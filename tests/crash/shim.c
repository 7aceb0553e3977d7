/* Stands between a program and its files (LD_PRELOAD): makes the k-th call fail, or writes down what every call did.
 *
 * It looks at the files in one folder, and at the folder itself. Nothing happens before the program (or a child that it
 * forked) says what is wanted:
 *
 *   shim_arm       of the calls in `mask`, `lasts` from the k-th on meet a fault
 *   shim_record    what each call did goes to a log, in the order in which it happened; so does what is written to a
 *                  second file, which holds the program's acknowledgements
 *
 * Both may be asked for. Files that were opened before are not looked at. 64-bit Linux only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN, CREATE, WRITE, SYNC, TRUNCATE, UNLINK, RENAME, LINK, READ, ACKNOWLEDGE };
enum { NO_FAULT, KILL, TORN, IO_ERROR, NO_SPACE };
enum { NEITHER, JOURNAL, ACKNOWLEDGEMENTS };

struct page { /* shared with whoever drives us; see shim.py */
    int64_t calls; /* so far, of those in the mask */
    int64_t hits;  /* faults that were made */
    int32_t operation; /* of the first fault */
    char path[244];
};

struct record {
    uint8_t operation;
    uint8_t error; /* 0, or why it failed */
    uint16_t path_bytes;
    uint16_t second_bytes;
    uint16_t unused;
    uint32_t data_bytes;
    uint32_t unused_too;
    int64_t inode;
    int64_t offset; /* of a write; the length, for TRUNCATE; 1 when an OPEN cut the file to length zero */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX], acknowledgements[PATH_MAX];
static size_t folder_bytes;
static struct page *page;
static int64_t kth, lasts;
static int fault, log_file = -1;
static unsigned mask;
static unsigned char kind_of[65536];

void shim_arm(const char *where, void *shared, long k, int which, long calls, unsigned operations) {
    strncpy(folder, where, sizeof folder - 1);
    folder_bytes = strlen(folder);
    page = shared;
    kth = k;
    fault = which;
    lasts = calls;
    mask = operations;
}

int shim_record(const char *where, const char *told, const char *into) {
    strncpy(folder, where, sizeof folder - 1);
    folder_bytes = strlen(folder);
    strncpy(acknowledgements, told, sizeof acknowledgements - 1);
    log_file = (int)syscall(SYS_openat, AT_FDCWD, into, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return log_file;
}

static int kind_of_path(const char *path) {
    if (!path || (!page && log_file < 0)) return NEITHER;
    if (log_file >= 0 && !strcmp(path, acknowledgements)) return ACKNOWLEDGEMENTS;
    if (strncmp(path, folder, folder_bytes)) return NEITHER;
    return path[folder_bytes] == '/' || path[folder_bytes] == 0 ? JOURNAL : NEITHER;
}

static int kind_of_file(int file) { return file >= 0 && file < 65536 ? kind_of[file] : NEITHER; }

static const char *name_of(int file, char *space) {
    char link[40] = "/proc/self/fd/";
    char *end = link + strlen(link), digits[12];
    int count = 0;
    do digits[count++] = (char)('0' + file % 10); while (file /= 10);
    while (count) *end++ = digits[--count];
    *end = 0;
    ssize_t got = syscall(SYS_readlinkat, AT_FDCWD, link, space, PATH_MAX - 1);
    space[got < 0 ? 0 : got] = 0;
    return space;
}

static void put_all(const void *data, size_t bytes) {
    const char *next = data;
    while (bytes) {
        ssize_t put = syscall(SYS_write, log_file, next, bytes);
        if (put < 0) _exit(99); /* a log with a hole would prove nothing */
        next += put;
        bytes -= (size_t)put;
    }
}

struct happened {
    int operation, error;
    int64_t inode, offset;
    const char *path, *second;
    const void *data;
    size_t bytes;
};

static void note(struct happened it) {
    if (log_file < 0) return;
    struct record record = {0};
    record.operation = (uint8_t)it.operation;
    record.error = (uint8_t)it.error;
    record.path_bytes = (uint16_t)(it.path ? strlen(it.path) : 0);
    record.second_bytes = (uint16_t)(it.second ? strlen(it.second) : 0);
    record.data_bytes = (uint32_t)it.bytes;
    record.inode = it.inode;
    record.offset = it.offset;
    put_all(&record, sizeof record);
    put_all(it.path, record.path_bytes);
    put_all(it.second, record.second_bytes);
    put_all(it.data, it.bytes);
}

static int64_t inode_of(int file) {
    struct stat status;
    return fstat(file, &status) ? 0 : (int64_t)status.st_ino;
}

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

/* The fault that this call meets, if any. The lock is held. */
static int meet(int operation, const char *path) {
    if (!page || !(mask & 1u << operation)) return NO_FAULT;
    int64_t call = ++page->calls;
    if (call < kth || call - kth >= lasts) return NO_FAULT;
    if (!page->hits++) {
        page->operation = operation;
        strncpy(page->path, path, sizeof page->path - 1);
    }
    if (fault == KILL || (fault == TORN && operation != WRITE)) die();
    return fault;
}

static int failure(int met) { return met == NO_SPACE ? ENOSPC : EIO; }

/* ---- files by name ------------------------------------------------------------------------------------------------ */

static int open_file(int at, const char *path, int flags, mode_t mode) {
    int kind = at == AT_FDCWD || (path && *path == '/') ? kind_of_path(path) : NEITHER;
    if (kind == NEITHER) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    int absent = (flags & O_CREAT) && syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
    int operation = absent ? CREATE : OPEN;
    int met = kind == JOURNAL ? meet(operation, path) : NO_FAULT;
    int file = -1, error = failure(met);
    if (!met) {
        file = (int)syscall(SYS_openat, at, path, flags, mode);
        error = errno;
    }
    if (file >= 0) {
        if (file < 65536) kind_of[file] = (unsigned char)kind;
        if (kind == JOURNAL && (absent || flags & O_TRUNC))
            note((struct happened){operation, 0, inode_of(file), (flags & O_TRUNC) != 0, path, 0, 0, 0});
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return file;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPENER(name)                                                                                                   \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_of(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return open_file(AT_FDCWD, path, flags, mode);                                                                 \
    }
#define OPENER_AT(name)                                                                                                \
    int name(int at, const char *path, int flags, ...) {                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_of(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return open_file(at, path, flags, mode);                                                                       \
    }
OPENER(open)
OPENER(open64)
OPENER_AT(openat)
OPENER_AT(openat64)

int close(int file) {
    if (kind_of_file(file)) kind_of[file] = NEITHER;
    return (int)syscall(SYS_close, file);
}

/* Rename and link have two names, unlink has one. */
static int change_names(int operation, const char *path, const char *second) {
    int watched = kind_of_path(path) == JOURNAL || kind_of_path(second) == JOURNAL;
    pthread_mutex_lock(&lock);
    int met = watched ? meet(operation, path) : NO_FAULT;
    long answer = -1;
    if (met) errno = failure(met);
    else if (operation == UNLINK) answer = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    else if (operation == RENAME) answer = syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, second, 0);
    else answer = syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, second, 0);
    int error = errno;
    if (watched && !answer) note((struct happened){operation, 0, 0, 0, path, second, 0, 0});
    pthread_mutex_unlock(&lock);
    errno = error;
    return (int)answer;
}

int unlink(const char *path) { return change_names(UNLINK, path, 0); }
int rename(const char *from, const char *to) { return change_names(RENAME, from, to); }
int link(const char *from, const char *to) { return change_names(LINK, from, to); }

/* ---- open files --------------------------------------------------------------------------------------------------- */

static ssize_t real_write(int file, const void *data, size_t bytes, off_t offset) {
    return offset < 0 ? syscall(SYS_write, file, data, bytes) : syscall(SYS_pwrite64, file, data, bytes, offset);
}

/* An offset of -1: where the file stands. An error comes after half of the data, as it may on a real disk. */
static ssize_t put(int file, const void *data, size_t bytes, off_t offset) {
    int kind = kind_of_file(file);
    if (kind == NEITHER) return real_write(file, data, bytes, offset);
    char space[PATH_MAX];
    const char *path = name_of(file, space);
    pthread_mutex_lock(&lock);
    int met = kind == JOURNAL ? meet(WRITE, path) : NO_FAULT;
    off_t place = offset;
    if (offset < 0) {
        struct stat status;
        int append = fcntl(file, F_GETFL) & O_APPEND;
        place = append && !fstat(file, &status) ? status.st_size : lseek(file, 0, SEEK_CUR);
    }
    size_t wanted = met == NO_SPACE ? 0 : met ? bytes / 2 : bytes;
    ssize_t written = wanted || !met ? real_write(file, data, wanted, offset) : 0;
    int error = errno;
    if (met == TORN) die();
    if (written > 0)
        note((struct happened){kind == JOURNAL ? WRITE : ACKNOWLEDGE, 0, inode_of(file), place, path, 0, data,
                               (size_t)written});
    if (met) {
        error = failure(met);
        written = -1;
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t write(int file, const void *data, size_t bytes) { return put(file, data, bytes, -1); }
ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset) { return put(file, data, bytes, offset); }
ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t offset) { return put(file, data, bytes, offset); }

static ssize_t get(int file, void *data, size_t bytes, off_t offset) {
    if (kind_of_file(file) == JOURNAL && page && mask & 1u << READ) {
        char space[PATH_MAX];
        const char *path = name_of(file, space);
        pthread_mutex_lock(&lock);
        int met = meet(READ, path);
        pthread_mutex_unlock(&lock);
        if (met) {
            errno = failure(met);
            return -1;
        }
    }
    return offset < 0 ? syscall(SYS_read, file, data, bytes) : syscall(SYS_pread64, file, data, bytes, offset);
}

ssize_t read(int file, void *data, size_t bytes) { return get(file, data, bytes, -1); }
ssize_t pread(int file, void *data, size_t bytes, off_t offset) { return get(file, data, bytes, offset); }
ssize_t pread64(int file, void *data, size_t bytes, off64_t offset) { return get(file, data, bytes, offset); }

/* A sync, or a change of the length: nothing of it happens when it meets a fault. */
static int settle(int operation, long number, int file, off_t length) {
    int kind = kind_of_file(file);
    if (kind != JOURNAL) return (int)syscall(number, file, length);
    char space[PATH_MAX];
    const char *path = name_of(file, space);
    pthread_mutex_lock(&lock);
    int met = meet(operation, path);
    long answer = -1;
    if (met) errno = failure(met);
    else answer = syscall(number, file, length);
    int error = errno;
    note((struct happened){operation, answer ? error : 0, inode_of(file), length, path, 0, 0, 0});
    pthread_mutex_unlock(&lock);
    errno = error;
    return (int)answer;
}

int fsync(int file) { return settle(SYNC, SYS_fsync, file, 0); }
int fdatasync(int file) { return settle(SYNC, SYS_fdatasync, file, 0); }
int ftruncate(int file, off_t length) { return settle(TRUNCATE, SYS_ftruncate, file, length); }
int ftruncate64(int file, off64_t length) { return settle(TRUNCATE, SYS_ftruncate, file, length); }

/* Space set aside: a write without data, to those who count; it answers with its error. */
static int allocate(int file, off_t offset, off_t length) {
    if (kind_of_file(file) != JOURNAL) return syscall(SYS_fallocate, file, 0, offset, length) ? errno : 0;
    char space[PATH_MAX];
    const char *path = name_of(file, space);
    struct stat status;
    pthread_mutex_lock(&lock);
    int met = meet(WRITE, path);
    if (met == TORN) die();
    int error = met ? failure(met) : syscall(SYS_fallocate, file, 0, offset, length) ? errno : 0;
    if (!error && !fstat(file, &status))
        note((struct happened){TRUNCATE, 0, inode_of(file), status.st_size, path, 0, 0, 0});
    pthread_mutex_unlock(&lock);
    return error;
}

int posix_fallocate(int file, off_t offset, off_t length) { return allocate(file, offset, length); }
int posix_fallocate64(int file, off64_t offset, off64_t length) { return allocate(file, offset, length); }
