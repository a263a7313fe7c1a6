/* Shifts the wall clock of the process that it is preloaded into by as many seconds as the file $CLOCK_SHIFT says. The clock that
 * deadlines must go by, CLOCK_MONOTONIC, is left alone. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *at) {
    int result = (int)syscall(SYS_clock_gettime, id, at);
    const char *path = getenv("CLOCK_SHIFT");
    FILE *file = result == 0 && id == CLOCK_REALTIME && path ? fopen(path, "re") : NULL;
    long shift = 0;
    if (file) {
        if (fscanf(file, "%ld", &shift) == 1) at->tv_sec += shift;
        fclose(file);
    }
    return result;
}
