// The least that the recorder's readings can cost: the same files of the kernel, read at the same moments, and nothing
// done with what they say. Usage: floor INTERVAL_US SECONDS GROUP_FILES COMMAND...
//
// A tick reads the files of the host and of the control group (GROUP_FILES, separated by colons); who is new (by the pid
// that was given out last, and only then by a walk through /proc); and of each process of the tree stat, statm, io and its
// CPU clock. Each second vmstat, cpuinfo, of each process of the tree status and the number of its descriptors are read too,
// and every five seconds stat of every process of the machine. All files but these are kept open.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 64, FILES = 4 };
static const char *EACH_TICK[] = {"/proc/stat",         "/proc/meminfo",         "/proc/diskstats",  "/proc/net/dev",
                                  "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io"};
static const char *EACH_SECOND[] = {"/proc/vmstat", "/proc/loadavg", "/proc/cpuinfo"};
enum {
    HOST_FILES = sizeof EACH_TICK / sizeof *EACH_TICK,
    GROUP_FILES = 16,
    EVERYBODY_SECONDS = 5,
    SECOND_FILES = sizeof EACH_SECOND / sizeof *EACH_SECOND
};

static struct process {
    int pid, files[FILES];
    char descriptors[64];
} tree[PROCESSES];
static int tree_size;
static char text[1 << 16];

static long long nanoseconds(clockid_t clock) {
    struct timespec time = {0, 0};
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static ssize_t read_file(int file) { return file < 0 ? -1 : pread(file, text, sizeof text - 1, 0); }

static int open_of(int pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int parent_of(int pid) {
    int file = open_of(pid, "stat"), parent = -1;
    ssize_t length = read_file(file);
    if (length > 0) {
        text[length] = 0;
        char *name_end = strrchr(text, ')');
        if (name_end) sscanf(name_end + 1, " %*c %d", &parent);
    }
    if (file >= 0) close(file);
    return parent;
}

static int is_member(int pid) {
    for (int n = 0; n < tree_size; n++)
        if (tree[n].pid == pid) return 1;
    return 0;
}

static void admit(int pid) {
    static const char *NAMES[FILES] = {"stat", "statm", "io", "status"};
    if (tree_size == PROCESSES) return;
    struct process *process = &tree[tree_size++];
    process->pid = pid;
    for (int n = 0; n < FILES; n++) process->files[n] = open_of(pid, NAMES[n]);
    snprintf(process->descriptors, sizeof process->descriptors, "/proc/%d/fd", pid);
}

// Looks at those whose pids are greater than at the last walk.
static void walk(int since) {
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        int pid = atoi(entry->d_name);
        if (pid > since && !is_member(pid)) {
            int parent = parent_of(pid);
            if (parent == getpid() || is_member(parent)) admit(pid);
        }
    }
    if (proc) closedir(proc);
}

static void look_at_everybody(void) {
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        if (atoi(entry->d_name) > 0) parent_of(atoi(entry->d_name));
    if (proc) closedir(proc);
}

static int newest_pid(int file) {
    ssize_t length = read_file(file);
    text[length > 0 ? length : 0] = 0;
    char *last = strrchr(text, ' ');
    return last ? atoi(last) : 0;
}

static void read_tree(int slow) {
    for (int n = 0; n < tree_size; n++) {
        struct process *process = &tree[n];
        for (int file = 0; file < FILES - !slow; file++) read_file(process->files[file]);
        nanoseconds((~(clockid_t)process->pid << 3) | 2);
        struct stat descriptors;
        if (slow && stat(process->descriptors, &descriptors)) descriptors.st_size = 0;
    }
}

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr, "usage: floor INTERVAL_US SECONDS GROUP_FILES COMMAND...\n");
        return 2;
    }
    long long interval = atoll(words[1]) * 1000, length = (long long)(atof(words[2]) * 1e9);
    int tick_files[HOST_FILES + GROUP_FILES], tick_count = HOST_FILES, second_files[SECOND_FILES], loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    for (int n = 0; n < HOST_FILES; n++) tick_files[n] = open(EACH_TICK[n], O_RDONLY | O_CLOEXEC);
    for (char *path = strtok(words[3], ":"); path && tick_count < HOST_FILES + GROUP_FILES; path = strtok(0, ":"))
        tick_files[tick_count++] = open(path, O_RDONLY | O_CLOEXEC);
    for (int n = 0; n < SECOND_FILES; n++) second_files[n] = open(EACH_SECOND[n], O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int newest = newest_pid(loadavg), root = fork();
    if (root == 0) {
        execvp(words[4], words + 4);
        _exit(127);
    }
    long long begun = nanoseconds(CLOCK_MONOTONIC), due = begun, second = begun, used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    long long latest = 0;
    long ticks = 0, missed = 0, seconds = 0;
    for (due += interval; due - begun <= length; due += interval) {
        struct timespec until = {due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR) {}
        long long late = nanoseconds(CLOCK_MONOTONIC) - due, passed = late / interval;
        if (late > latest) latest = late;
        due += passed * interval;
        missed += passed;
        ticks++;
        int slow = due >= second;
        if (slow) second += 1000000000;
        int now = newest_pid(loadavg);
        if (now != newest) walk(newest);
        newest = now;
        read_tree(slow);
        for (int n = 0; n < tick_count; n++) read_file(tick_files[n]);
        for (int n = 0; slow && n < SECOND_FILES; n++) read_file(second_files[n]);
        if (slow && ++seconds % EVERYBODY_SECONDS == 0) look_at_everybody();
    }
    used = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("{\"cpu_ns\": %lld, \"ticks\": %ld, \"missed_ticks\": %ld, \"late_max_ns\": %lld, \"processes\": %d}\n", used, ticks,
           missed, latest, tree_size);
    while (wait(0) > 0) {}
    return 0;
}
