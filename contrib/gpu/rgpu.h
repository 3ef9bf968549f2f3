/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rgpu.h: heaps of pipes in memory of a GPU: a table rmemory_ops_t (rmemory(3)) over CUDA or HIP.
 *
 *     char error[RGPU_ERROR_BYTES];
 *     rgpu_t gpu;
 *     if (rgpu_open(&gpu, "cuda", NULL, 0, error, sizeof(error)) == 0)
 *         cfg.memory = rgpu_memory(gpu);
 *
 * The driver is opened at run time, and no header of it is needed to compile this. A message is memory that a kernel fills at one
 * process and reads at the other one, of the same GPU or of another one that can access it; nothing is copied. The functions return
 * 0 or -errno.
 */
#ifndef RGPU_H
#define RGPU_H

#include <rpipe.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RGPU_ERROR_BYTES 256

typedef struct rgpu *rgpu_t;

/* What rwrite waits for, so that the other process finds what kernels have stored in a message. */
typedef enum {
    RGPU_WAIT_CONTEXT = 0, /* all work of the context; the default */
    RGPU_WAIT_STREAM = 1,  /* the work of one stream */
    RGPU_WAIT_NOT = 2      /* nothing: the program has waited */
} rgpu_wait_t;

/*
 * For how long rwrite and copies wait: then -ETIMEDOUT. After a copy that has not ended in this time every copy is -EIO, since the device
 * may still make it: pinned memory of the program that was its source or goal must not be given back before the process ends. A copy between
 * the device and memory that is not pinned returns from the driver only when it has been made, and has no deadline if the device hangs.
 * A driver without cuCtxRecordEvent (CUDA before 12.5, HIP) waits for all of a context without a deadline.
 */
#define RGPU_WAIT_MS 60000

/*
 * Opens a device. api: "cuda" or "hip"; library: its driver, NULL: libcuda.so.1 or libamdhip64.so; device: the number that the
 * driver gives it. The context is the primary one, which the runtime libraries use too. On failure error has the reason.
 */
int rgpu_open(rgpu_t *gpu, const char *api, const char *library, int device, char *error,
              size_t bytes);
/* After rexit, since pipes use the table until then. */
void rgpu_close(rgpu_t gpu);

/* For rpipe_config_t.memory; lives as long as gpu. */
const rmemory_ops_t *rgpu_memory(rgpu_t gpu);
/* stream: a CUstream or hipStream_t, which RGPU_WAIT_STREAM needs. Not while another thread is in rwrite. */
void rgpu_wait_for(rgpu_t gpu, rgpu_wait_t what, void *stream);
/* Another time than RGPU_WAIT_MS. Not while another thread is in a call on a pipe. */
void rgpu_set_wait_ms(rgpu_t gpu, int ms);
/* The message of the last call of the driver that failed, in any thread: what the library reports has its -errno alone. */
void rgpu_error(rgpu_t gpu, char *error, size_t bytes);

/* The name of the device. */
const char *rgpu_name(rgpu_t gpu);
/* Makes the context current in this thread, as calls of the driver need it. */
int rgpu_use(rgpu_t gpu);
/* A function of the driver by its name, as it is exported ("cuLaunchKernel"), or NULL. */
void *rgpu_function(rgpu_t gpu, const char *name);

#ifdef __cplusplus
}
#endif

#endif
