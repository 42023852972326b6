/* Makes every sync take SYNC_MS milliseconds longer, as a slower disk would. Preloaded into a database server. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_the_disk(void) {
    const char *ms = getenv("SYNC_MS");
    long ns = (ms ? atol(ms) : 1) * 1000000L;
    struct timespec left = {ns / 1000000000L, ns % 1000000000L};
    while (nanosleep(&left, &left) != 0) {
    }
}

static int call(const char *name, int fd) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    wait_for_the_disk();
    return next(fd);
}

int fsync(int fd) { return call("fsync", fd); }

int fdatasync(int fd) { return call("fdatasync", fd); }
