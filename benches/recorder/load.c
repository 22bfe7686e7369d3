// The process tree that is observed: a parent with four children, each holding MB megabytes and busy for DUTY % of the
// time. Usage: load SECONDS MB DUTY
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: load SECONDS MB DUTY\n");
        return 2;
    }
    double end = seconds() + atof(words[1]);
    size_t bytes = (size_t)atoi(words[2]) << 20;
    int duty = atoi(words[3]), is_child = 0;
    for (int n = 0; n < 4 && !is_child; n++) is_child = fork() == 0;
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    volatile double x = 1;
    size_t at = 0;
    while (seconds() < end) {
        for (double begun = seconds(); seconds() - begun < duty * 1e-4;) {
            for (int n = 0; n < 2000; n++) x = x * 1.0000001 + 0.1;
            block[at = (at + 4096) % bytes]++;
        }
        if (duty < 100) nanosleep(&(struct timespec){0, (100 - duty) * 100000}, 0);
    }
    if (!is_child)
        while (wait(0) > 0) {}
    return 0;
}
