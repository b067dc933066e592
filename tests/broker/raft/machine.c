/* A machine whose disk fails, or whose clock jumps, as one process sees it. Loaded with LD_PRELOAD.
 *
 * PYMQ_MACHINE names a file of 16 bytes, two little-endian integers of 64 bits, which another process may change at any
 * time: 1 while writes and syncs of files fail (EIO), and the nanoseconds by which the wall clock is ahead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct state {
    volatile int64_t disk_fails;
    volatile int64_t ahead_ns;
};

static const struct state healthy;
static const struct state *state = &healthy;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PYMQ_MACHINE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *state, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        state = mapped;
}

#define REAL(name)                                                                                                     \
    static __typeof__(&name) real;                                                                                     \
    if (!real)                                                                                                         \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define ON_DISK(name, ...)                                                                                             \
    REAL(name);                                                                                                        \
    if (state->disk_fails) {                                                                                           \
        errno = EIO;                                                                                                   \
        return -1;                                                                                                     \
    }                                                                                                                  \
    return real(__VA_ARGS__)

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { ON_DISK(pwrite, fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { ON_DISK(pwrite64, fd, data, size, at); }
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    ON_DISK(pwritev2, fd, parts, count, at, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    ON_DISK(pwritev64v2, fd, parts, count, at, flags);
}
int fsync(int fd) { ON_DISK(fsync, fd); }
int fdatasync(int fd) { ON_DISK(fdatasync, fd); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(clock_gettime);
    int result = real(clock, time);
    if (!result && state->ahead_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + state->ahead_ns;
        time->tv_sec = ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return result;
}
