/* Stand before every libc call that changes the disk below a folder: count it, kill the process, or let it fail.
   Built with the system's compiler and loaded with LD_PRELOAD (faults.py), so that Python, numpy and Rust code are all seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, TORN, FAIL };
static char prefix[4096];
static long seen, target = -1;
static int mode, code;

void faults_set(const char *folder, long at, int what, int error) {
    strncpy(prefix, folder, sizeof prefix - 1);
    seen = 0, target = at, mode = what, code = error;
}
long faults_seen(void) { return seen; }

static int below(const char *path) { return prefix[0] && path && strncmp(path, prefix, strlen(prefix)) == 0; }

static int below_at(int folder, const char *path) {
    char link[64], place[4096];
    if (!prefix[0] || !path) return 0;
    if (path[0] == '/') return below(path);
    if (folder == AT_FDCWD) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(link, place, sizeof place - 1);
    if (n <= 0) return 0;
    place[n] = 0;
    return below(place);
}

static int below_fd(int fd) {
    char link[64], place[4096];
    if (!prefix[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, place, sizeof place - 1);
    if (n <= 0) return 0;
    place[n] = 0;
    return below(place);
}

/* 1: the call must fail with errno set. `space`: does it need space, so that a full disk refuses it? */
static int stopped(int matters, int space) {
    if (!matters) return 0;
    seen++;
    if (target < 0) return 0;
    if (mode == KILL && seen == target) kill(getpid(), SIGKILL);
    if (mode == FAIL && space && seen >= target) {
        errno = code;
        return 1;
    }
    return 0;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))
#define MODE(flags) \
    mode_t how = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); how = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) {
    MODE(flags) REAL(open);
    return stopped(CHANGES(flags) && below(path), 1) ? -1 : real(path, flags, how);
}
int open64(const char *path, int flags, ...) {
    MODE(flags) REAL(open64);
    return stopped(CHANGES(flags) && below(path), 1) ? -1 : real(path, flags, how);
}
int openat(int folder, const char *path, int flags, ...) {
    MODE(flags) REAL(openat);
    return stopped(CHANGES(flags) && below_at(folder, path), 1) ? -1 : real(folder, path, flags, how);
}
int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags) REAL(openat64);
    return stopped(CHANGES(flags) && below_at(folder, path), 1) ? -1 : real(folder, path, flags, how);
}
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (stopped(below_fd(fd), 1)) return -1;
    if (mode == TORN && target > 0 && seen == target && below_fd(fd)) {
        real(fd, data, size / 2);
        kill(getpid(), SIGKILL);
    }
    return real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return stopped(below_fd(fd), 1) ? -1 : real(fd, parts, count);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return stopped(below(from), 0) ? -1 : real(from, to);
}
int unlink(const char *path) {
    REAL(unlink);
    return stopped(below(path), 0) ? -1 : real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    return stopped(below_at(folder, path), 0) ? -1 : real(folder, path, flags);
}
int rmdir(const char *path) {
    REAL(rmdir);
    return stopped(below(path), 0) ? -1 : real(path);
}
int mkdir(const char *path, mode_t how) {
    REAL(mkdir);
    return stopped(below(path), 1) ? -1 : real(path, how);
}
int fsync(int fd) {
    REAL(fsync);
    return stopped(below_fd(fd), 0) ? -1 : real(fd);
}
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    return stopped(below_fd(fd), 1) ? -1 : real(fd, size);
}
