/* Plays the functions of NVIDIA's management library that the harness calls, for a host without a GPU.
 *
 * One GPU, at 71 C and 1980 MHz, 650 of 700 W, slowed down by its own heat. Process PLAYED_GPU_PID holds 1 GiB of it and
 * keeps it busy at 60 %; without that variable nobody uses it. */
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

typedef struct { unsigned int gpu, memory; } utilization;
typedef struct {
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance, compute_instance;
} process;
typedef struct {
  unsigned int pid;
  unsigned long long micros;
  unsigned int sm, memory, encoder, decoder;
} sample;

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
static int gpu;

static unsigned int user(void) {
  const char *pid = getenv("PLAYED_GPU_PID");
  return pid ? (unsigned int)strtoul(pid, NULL, 10) : 0;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
  if (index != 0) return NOT_FOUND;
  *device = &gpu;
  return SUCCESS;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned int length) {
  strncpy(text, "GPU-00000000-1111-2222-3333-444444444444", length);
  return device == &gpu ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization *rates) {
  rates->gpu = user() ? 60 : 0;
  rates->memory = 0;
  return device == &gpu ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process *list) {
  unsigned int room = *count, pid = user();
  *count = pid ? 1 : 0;
  if (!pid) return SUCCESS;
  if (room < 1 || !list) return INSUFFICIENT_SIZE;
  list[0] = (process){pid, 1ULL << 30, ~0u, ~0u};
  return device == &gpu ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned int *count, process *list) {
  (void)device, (void)list;
  *count = 0;
  return SUCCESS;
}
int nvmlDeviceGetProcessUtilization(void *device, sample *list, unsigned int *count, unsigned long long since) {
  struct timeval now;
  unsigned int pid = user();
  (void)device, (void)since;
  if (!pid) return NOT_FOUND;
  if (!list) { *count = 1; return INSUFFICIENT_SIZE; }
  gettimeofday(&now, NULL);
  *count = 1;
  list[0] = (sample){pid, now.tv_sec * 1000000ULL + now.tv_usec, 60, 5, 0, 0};
  return SUCCESS;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius) {
  (void)device, (void)sensor;
  *celsius = 71;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *mhz) {
  (void)device;
  *mhz = kind == 1 ? 1980 : 3201; /* 1: the multiprocessors */
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
  (void)device;
  *milliwatts = 650000;
  return SUCCESS;
}
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *milliwatts) {
  (void)device;
  *milliwatts = 700000;
  return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  (void)device;
  *reasons = 0x20; /* software thermal slowdown */
  return SUCCESS;
}
