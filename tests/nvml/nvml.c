/* A stand-in for NVIDIA's driver library: just the calls that the recorder makes, and a scene to play.
 *
 * SHICE_TEST_NVML         the scene, in words; each changes something about one healthy GPU:
 *   two           two GPUs, of which the second works at 25 %
 *   mig           the GPU is divided (MIG) into instances 0 and 2
 *   unified       a GB10, which has no memory of its own
 *   no-samples    the driver keeps no samples of utilisation
 *   no-power      one sensor is missing
 *   denied        the processes may not be listed
 *   unknown       power fails with an error that the bindings do not know, temperature with "unknown"
 *   sentinels     marks for "not available" in the place of values
 *   idle-figure   utilisation stands at 0
 *   lost          the second GPU falls off the bus after some readings
 *   back          and answers again after some more
 *   energy-back   the energy counter steps back
 *   slow          each sensor takes 2 s
 *   strangers     the processes are those of another pid namespace
 *   init-N        the library cannot be used, for reason N (18: library and kernel module differ)
 *   silent        nothing is supported
 * SHICE_TEST_NVML_PID     a file that holds the pid of a process to be listed with 2 GiB of GPU memory
 * SHICE_TEST_NVML_LOADED  a file that is made when this library is loaded
 *
 * Compiled with -DOLD it is a driver from before 510, which lacks the newer versions of some calls.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15,
    NEWER_THAN_BINDINGS = 777, UNKNOWN = 999
};
enum { CLOCK_SM = 1 };
enum { SAMPLES_OF_GPU = 1, SAMPLES_OF_MEMORY = 2, UNSIGNED_INT = 1, POWER_INSTANT = 186 };
enum { CORRECTED = 0 };
/* Readings of GPU 1 after which the scene `lost` takes it away, and `back` gives it back. */
enum { READINGS_UNTIL_LOST = 4, READINGS_UNTIL_BACK = 8 };
/* The driver's own samples: one each 50 ms of wall-clock time, as many as 10 s hold. */
enum { SAMPLE_PERIOD_US = 50000, SAMPLES_KEPT = 200 };

#define GIB (1ULL << 30)
#define INSTANCES 10
#define NONE 0xFFFFFFFFu

typedef struct { uint32_t gpu, memory; } Utilization;
typedef struct { uint64_t total, free, used; } OldMemory;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory;
typedef struct { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; } Process;
typedef struct { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char address[32]; } Pci;
typedef union { double real; uint32_t integer; uint64_t large; } Value;
typedef struct { uint64_t time_us; Value value; } Sample;
typedef struct {
    uint32_t field, scope;
    int64_t time_us, latency_us;
    int32_t type, result;
    Value value;
} Field;

/* GPUs 0 and 1; the instances of GPU 0 are numbered from INSTANCES on. */
static uintptr_t devices[INSTANCES + 3] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static int readings_of_second;

__attribute__((constructor)) static void loaded(void) {
    const char *path = getenv("SHICE_TEST_NVML_LOADED");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) fclose(file);
}

/* Whether the scene has a word. */
static int has(const char *word) {
    const char *scene = getenv("SHICE_TEST_NVML");
    size_t length = strlen(word);
    for (; scene && *scene; scene += strcspn(scene, " "), scene += strspn(scene, " "))
        if (strcspn(scene, " ") == length && strncmp(scene, word, length) == 0) return 1;
    return 0;
}

static uint64_t clock_us(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

/* Milliseconds since the first call. */
static uint64_t elapsed(void) {
    static uint64_t first;
    uint64_t now = clock_us(CLOCK_MONOTONIC) / 1000;
    if (!first) first = now;
    return now - first;
}

static int is_instance(const uintptr_t *gpu) { return *gpu >= INSTANCES; }

/* What every sensor answers first. */
static int sensor(const uintptr_t *gpu) {
    if (has("silent")) return NOT_SUPPORTED;
    if (has("slow")) sleep(2);
    int away = readings_of_second > READINGS_UNTIL_LOST && !(has("back") && readings_of_second > READINGS_UNTIL_BACK);
    if (has("lost") && *gpu == 1 && away) return GPU_IS_LOST;
    return SUCCESS;
}

/* What only a whole GPU has. */
static int whole(const uintptr_t *gpu) { return is_instance(gpu) ? NOT_SUPPORTED : sensor(gpu); }

int nvmlInit_v2(void) {
    const char *scene = getenv("SHICE_TEST_NVML"), *refusal = scene ? strstr(scene, "init-") : NULL;
    elapsed();
    return refusal ? atoi(refusal + strlen("init-")) : SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, uint32_t length) { snprintf(text, length, "580.82.07"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(uint32_t *count) { *count = has("two") ? 2 : 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, uintptr_t **gpu) { *gpu = &devices[index]; return SUCCESS; }

int nvmlDeviceGetMigMode(uintptr_t *gpu, uint32_t *current, uint32_t *pending) {
    *current = *pending = has("mig") && *gpu == 0;
    return has("mig") ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(uintptr_t *gpu, uint32_t *count) { (void)gpu; *count = 3; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(uintptr_t *gpu, uint32_t index, uintptr_t **instance) {
    (void)gpu;
    if (index == 1) return NOT_FOUND;
    *instance = &devices[INSTANCES + index];
    return SUCCESS;
}

int nvmlDeviceGetName(uintptr_t *gpu, char *text, uint32_t length) {
    if (is_instance(gpu)) snprintf(text, length, "Stand-in 100 MIG %dg.20gb", *gpu == INSTANCES ? 1 : 3);
    else snprintf(text, length, has("unified") ? "NVIDIA GB10" : "Stand-in 100");
    return SUCCESS;
}

int nvmlDeviceGetUUID(uintptr_t *gpu, char *text, uint32_t length) {
    const char *kind = is_instance(gpu) ? "MIG" : "GPU";
    snprintf(text, length, "%s-5ec2e7%02x-0000-0000-0000-000000000000", kind, (unsigned)*gpu);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(uintptr_t *gpu, Pci *pci) {
    memset(pci, 0, sizeof(*pci));
    pci->bus = 0x65 + (uint32_t)*gpu;
    snprintf(pci->address, sizeof(pci->address), "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(uintptr_t *gpu, int *major, int *minor) {
    (void)gpu;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

int nvmlDeviceGetPowerManagementLimit(uintptr_t *gpu, uint32_t *mw) { (void)gpu; *mw = 300000; return SUCCESS; }
int nvmlDeviceGetPowerManagementDefaultLimit(uintptr_t *gpu, uint32_t *mw) { (void)gpu; *mw = 350000; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkGeneration(uintptr_t *gpu, uint32_t *generation) { (void)gpu; *generation = 5; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(uintptr_t *gpu, uint32_t *lanes) { (void)gpu; *lanes = 16; return SUCCESS; }

int nvmlDeviceGetUtilizationRates(uintptr_t *gpu, Utilization *rates) {
    if (*gpu == 1) readings_of_second++;
    if (has("mig")) return NOT_SUPPORTED;
    *rates = (Utilization){*gpu == 0 ? 75 : 25, 30};
    if (has("idle-figure")) rates->gpu = 0;
    if (has("sentinels")) *rates = (Utilization){NONE, NONE};
    return whole(gpu);
}

/* Samples lie at whole periods; on GPU 0 they alternate between 50 % and 100 %. */
int nvmlDeviceGetSamples(uintptr_t *gpu, int kind, uint64_t after_us, int *type, uint32_t *count, Sample *samples) {
    if (has("no-samples") || has("mig") || has("idle-figure")) return NOT_SUPPORTED;
    uint64_t newest = clock_us(CLOCK_REALTIME) / SAMPLE_PERIOD_US, found = 0;
    *type = UNSIGNED_INT;
    for (uint64_t number = newest - SAMPLES_KEPT + 1; number <= newest; number++) {
        uint64_t time_us = number * SAMPLE_PERIOD_US;
        if (time_us <= after_us) continue;
        if (samples && found < *count) {
            uint32_t percent = *gpu == 0 ? (number % 2 ? 50 : 100) : 25;
            if (kind == SAMPLES_OF_MEMORY) percent = 30;
            if (has("sentinels")) percent = NONE;
            samples[found] = (Sample){time_us, {.integer = percent}};
        }
        found++;
    }
    if (!found) return NOT_FOUND;
    if (!samples || found < *count) *count = (uint32_t)found;
    if (*gpu == 1 && kind == SAMPLES_OF_GPU && samples) readings_of_second++;
    return whole(gpu);
}

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(uintptr_t *gpu, Memory *memory) {
    if (has("unified")) return NOT_SUPPORTED;
    *memory = (Memory){memory->version, 80 * GIB, GIB / 2, 76 * GIB + GIB / 2, 3 * GIB};
    if (is_instance(gpu)) *memory = (Memory){memory->version, 20 * GIB, GIB / 8, 18 * GIB, 2 * GIB};
    if (has("sentinels")) memory->used = memory->reserved = UINT64_MAX;
    return sensor(gpu);
}
#endif

int nvmlDeviceGetMemoryInfo(uintptr_t *gpu, OldMemory *memory) {
    *memory = (OldMemory){80 * GIB, 76 * GIB + GIB / 2, 3 * GIB + GIB / 2};
    return sensor(gpu);
}

int nvmlDeviceGetPowerUsage(uintptr_t *gpu, uint32_t *mw) {
    *mw = has("sentinels") ? NONE : 50000;
    if (has("unknown")) return NEWER_THAN_BINDINGS;
    return has("no-power") ? NOT_SUPPORTED : whole(gpu);
}

int nvmlDeviceGetFieldValues(uintptr_t *gpu, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        int known = fields[i].field == POWER_INSTANT && !has("no-power");
        fields[i].result = known ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = UNSIGNED_INT;
        fields[i].value.integer = has("sentinels") ? NONE : elapsed() / 100 % 2 ? 40000 : 60000;
    }
    return whole(gpu);
}

int nvmlDeviceGetEnforcedPowerLimit(uintptr_t *gpu, uint32_t *mw) { *mw = 300000; return whole(gpu); }

/* 50 W, on a counter that had a past. */
int nvmlDeviceGetTotalEnergyConsumption(uintptr_t *gpu, unsigned long long *mj) {
    unsigned long long past = has("energy-back") && elapsed() > 600 ? 0 : 1000000;
    *mj = has("sentinels") ? UINT64_MAX : past + 50 * elapsed();
    return whole(gpu);
}

int nvmlDeviceGetTemperature(uintptr_t *gpu, int which, uint32_t *celsius) {
    (void)which;
    *celsius = has("sentinels") ? NONE : 41;
    return has("unknown") ? UNKNOWN : whole(gpu);
}

int nvmlDeviceGetClockInfo(uintptr_t *gpu, int which, uint32_t *mhz) {
    *mhz = has("sentinels") ? NONE : which == CLOCK_SM ? 1980 : 3201;
    return whole(gpu);
}

/* Software power cap, and a bit that has no name yet. */
int nvmlDeviceGetCurrentClocksThrottleReasons(uintptr_t *gpu, unsigned long long *bits) {
    *bits = 0x4 | 1ULL << 40;
    return whole(gpu);
}

int nvmlDeviceGetCurrPcieLinkGeneration(uintptr_t *gpu, uint32_t *generation) { *generation = 4; return whole(gpu); }
int nvmlDeviceGetCurrPcieLinkWidth(uintptr_t *gpu, uint32_t *lanes) { *lanes = 8; return whole(gpu); }

/* Errors had before the run, and one more in its middle that could be corrected. */
int nvmlDeviceGetTotalEccErrors(uintptr_t *gpu, int kind, int counter, unsigned long long *errors) {
    (void)counter;
    *errors = kind == CORRECTED ? 7 + (elapsed() > 600) : 2;
    return whole(gpu);
}

int nvmlDeviceGetEncoderUtilization(uintptr_t *gpu, uint32_t *percent, uint32_t *period_us) {
    *percent = 5;
    *period_us = 167000;
    return has("mig") ? NOT_SUPPORTED : whole(gpu);
}

int nvmlDeviceGetDecoderUtilization(uintptr_t *gpu, uint32_t *percent, uint32_t *period_us) {
    *percent = 6;
    *period_us = 167000;
    return has("mig") ? NOT_SUPPORTED : whole(gpu);
}

/* Init with 1 GiB, and the process of the file with 2 GiB; both are on GPU 0 and its instance 2. */
static int compute_processes(uintptr_t *gpu, uint32_t *count, Process *processes) {
    if (has("denied")) return NO_PERMISSION;
    Process listed[4] = {{1, GIB, NONE, NONE}};
    uint32_t known = 1;
    const char *path = getenv("SHICE_TEST_NVML_PID");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        listed[known] = (Process){0, 2 * GIB, NONE, NONE};
        if (fscanf(file, "%u", &listed[known].pid) == 1) known++;
        fclose(file);
    }
    if (*gpu == 1 || *gpu == INSTANCES) known = 0;
    if (has("strangers")) listed[0].pid = 4100000;
    if (has("sentinels")) {
        listed[0].used = UINT64_MAX;
        listed[known++] = (Process){0, 5 * GIB, NONE, NONE};
        listed[known++] = (Process){NONE, 5 * GIB, NONE, NONE};
    }
    if (*count < known || !processes) {
        *count = known;
        return known ? INSUFFICIENT_SIZE : SUCCESS;
    }
    *count = known;
    memcpy(processes, listed, known * sizeof(Process));
    return sensor(gpu);
}

/* A desktop: init again, which both computes and draws, and a process that only draws. */
static int graphics_processes(uintptr_t *gpu, uint32_t *count, Process *processes) {
    Process listed[2] = {{1, GIB, NONE, NONE}, {2, GIB / 4, NONE, NONE}};
    if (is_instance(gpu) || *gpu == 1 || has("strangers") || has("sentinels")) {
        *count = 0;
        return SUCCESS;
    }
    if (*count < 2 || !processes) {
        *count = 2;
        return INSUFFICIENT_SIZE;
    }
    *count = 2;
    memcpy(processes, listed, sizeof(listed));
    return SUCCESS;
}

#ifdef OLD
#define VERSION(call) call##_v2
#else
#define VERSION(call) call##_v3
#endif

int VERSION(nvmlDeviceGetComputeRunningProcesses)(uintptr_t *gpu, uint32_t *count, Process *processes) {
    return compute_processes(gpu, count, processes);
}

int VERSION(nvmlDeviceGetGraphicsRunningProcesses)(uintptr_t *gpu, uint32_t *count, Process *processes) {
    return graphics_processes(gpu, count, processes);
}
