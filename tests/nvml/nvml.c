/* A stand-in for NVIDIA's driver library: just the calls that the recorder makes, and a scene to play.
 *
 * SHICE_TEST_NVML      the scene: one, two, no-power, lost, mismatch, energy-back, slow, silent
 * SHICE_TEST_NVML_PID  a file that holds the pid of a process to be listed with 2 GiB of GPU memory
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18 };
enum { CLOCK_SM = 1 };
/* Readings of GPU 1 after which the scene `lost` takes it away. */
enum { READINGS_UNTIL_LOST = 4 };

#define GIB (1ULL << 30)

typedef struct { uint32_t gpu, memory; } Utilization;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory;
typedef struct { uint32_t pid; uint64_t used; uint32_t gpu_instance, compute_instance; } Process;

static uintptr_t gpus[2] = {0, 1};
static int readings_of_second;

static int scene(const char *name) {
    const char *played = getenv("SHICE_TEST_NVML");
    return played && strcmp(played, name) == 0;
}

/* Milliseconds since the first call. */
static uint64_t elapsed(void) {
    static uint64_t first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ms = now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
    if (!first) first = ms;
    return ms - first;
}

/* What every sensor answers first. */
static int sensor(const uintptr_t *gpu) {
    if (scene("silent")) return NOT_SUPPORTED;
    if (scene("lost") && *gpu == 1 && readings_of_second > READINGS_UNTIL_LOST) return GPU_IS_LOST;
    return SUCCESS;
}

int nvmlInit_v2(void) { elapsed(); return scene("mismatch") ? LIB_RM_VERSION_MISMATCH : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, uint32_t length) { snprintf(text, length, "580.82.07"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(uint32_t *count) { *count = scene("two") || scene("lost") ? 2 : 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t index, uintptr_t **gpu) { *gpu = &gpus[index]; return SUCCESS; }

int nvmlDeviceGetName(uintptr_t *gpu, char *text, uint32_t length) {
    (void)gpu;
    snprintf(text, length, "Stand-in 100");
    return SUCCESS;
}

int nvmlDeviceGetUUID(uintptr_t *gpu, char *text, uint32_t length) {
    snprintf(text, length, "GPU-5ec2e7%02x-0000-0000-0000-000000000000", (unsigned)*gpu);
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

int nvmlDeviceGetUtilizationRates(uintptr_t *gpu, Utilization *rates) {
    if (*gpu == 1) readings_of_second++;
    *rates = (Utilization){*gpu == 0 ? 75 : 25, 30};
    return sensor(gpu);
}

int nvmlDeviceGetMemoryInfo_v2(uintptr_t *gpu, Memory *memory) {
    *memory = (Memory){memory->version, 80 * GIB, GIB / 2, 76 * GIB + GIB / 2, 3 * GIB};
    return sensor(gpu);
}

int nvmlDeviceGetPowerUsage(uintptr_t *gpu, uint32_t *mw) {
    if (scene("slow")) sleep(3);
    *mw = 50000;
    return scene("no-power") ? NOT_SUPPORTED : sensor(gpu);
}

/* 50 W, on a counter that had a past. */
int nvmlDeviceGetTotalEnergyConsumption(uintptr_t *gpu, unsigned long long *mj) {
    unsigned long long past = scene("energy-back") && elapsed() > 600 ? 0 : 1000000;
    *mj = past + 50 * elapsed();
    return sensor(gpu);
}

int nvmlDeviceGetTemperature(uintptr_t *gpu, int which, uint32_t *celsius) {
    (void)which;
    *celsius = 41;
    return sensor(gpu);
}

int nvmlDeviceGetClockInfo(uintptr_t *gpu, int which, uint32_t *mhz) {
    *mhz = which == CLOCK_SM ? 1980 : 3201;
    return sensor(gpu);
}

/* Software power cap, and a bit that has no name yet. */
int nvmlDeviceGetCurrentClocksThrottleReasons(uintptr_t *gpu, unsigned long long *bits) {
    *bits = 0x4 | 1ULL << 40;
    return sensor(gpu);
}

int nvmlDeviceGetComputeRunningProcesses_v3(uintptr_t *gpu, uint32_t *count, Process *processes) {
    Process listed[2] = {{1, GIB, ~0u, ~0u}, {0, 2 * GIB, ~0u, ~0u}};
    uint32_t known = 1;
    const char *path = getenv("SHICE_TEST_NVML_PID");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%u", &listed[1].pid) == 1) known = 2;
        fclose(file);
    }
    if (*count < known || !processes) {
        *count = known;
        return INSUFFICIENT_SIZE;
    }
    *count = known;
    memcpy(processes, listed, known * sizeof(Process));
    return sensor(gpu);
}
