/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.c: kernels on a GPU of CUDA or HIP; see gpu.h. Memory is that of contrib/gpu.
 *
 * For CUDA the kernels are PTX, which the driver compiles; for HIP they are source, which its
 * run-time compiler does. Both are started in a stream of their own, and rwrite waits for that
 * stream.
 */
#include "gpu.h"

#include "rgpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 256

struct gpu_state {
    rgpu_t device;
    void *stream, *module, *fill, *check;
    void *counter; /* of the device: wrong words so far */
    uint32_t counted;
    char *code; /* HIP: what was compiled */
    char error[RGPU_ERROR_BYTES];
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                  void *stream, void **arguments, void **more);
    int (*stream_synchronize)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*module_unload)(void *module);
};

static const char gpu_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* %r1: the number of this thread's word; %r2: of threads */
    ".visible .entry device_fill(.param .u64 at, .param .u32 words, .param .u32 key)\n"
    "{\n"
    ".reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %a<4>;\n"
    "ld.param.u64 %a1, [at];\nld.param.u32 %r3, [words];\nld.param.u32 %r4, [key];\n"
    "cvta.to.global.u64 %a1, %a1;\n"
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r5, %tid.x;\n"
    "mad.lo.u32 %r1, %r1, %r2, %r5;\n"
    "mov.u32 %r5, %nctaid.x;\nmul.lo.u32 %r2, %r2, %r5;\n"
    "next:\nsetp.ge.u32 %p, %r1, %r3;\n@%p bra done;\n"
    "mad.lo.u32 %r5, %r1, 2654435769, %r4;\n"
    "shr.u32 %r6, %r5, 15;\nxor.b32 %r5, %r5, %r6;\nmul.lo.u32 %r5, %r5, 2246822519;\n"
    "shr.u32 %r6, %r5, 13;\nxor.b32 %r5, %r5, %r6;\n"
    "mul.wide.u32 %a2, %r1, 4;\nadd.u64 %a2, %a1, %a2;\n"
    "st.global.u32 [%a2], %r5;\n"
    "add.u32 %r1, %r1, %r2;\nbra next;\n"
    "done:\nret;\n}\n"
    ".visible .entry device_check(.param .u64 at, .param .u32 words, .param .u32 key, "
    ".param .u64 wrong)\n"
    "{\n"
    ".reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %a<4>;\n"
    "ld.param.u64 %a1, [at];\nld.param.u32 %r3, [words];\nld.param.u32 %r4, [key];\n"
    "ld.param.u64 %a3, [wrong];\n"
    "cvta.to.global.u64 %a1, %a1;\ncvta.to.global.u64 %a3, %a3;\n"
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r5, %tid.x;\n"
    "mad.lo.u32 %r1, %r1, %r2, %r5;\n"
    "mov.u32 %r5, %nctaid.x;\nmul.lo.u32 %r2, %r2, %r5;\n"
    "next:\nsetp.ge.u32 %p, %r1, %r3;\n@%p bra done;\n"
    "mad.lo.u32 %r5, %r1, 2654435769, %r4;\n"
    "shr.u32 %r6, %r5, 15;\nxor.b32 %r5, %r5, %r6;\nmul.lo.u32 %r5, %r5, 2246822519;\n"
    "shr.u32 %r6, %r5, 13;\nxor.b32 %r5, %r5, %r6;\n"
    "mul.wide.u32 %a2, %r1, 4;\nadd.u64 %a2, %a1, %a2;\n"
    "ld.global.u32 %r6, [%a2];\nsetp.eq.u32 %p, %r5, %r6;\n@%p bra right;\n"
    "red.global.add.u32 [%a3], 1;\n"
    "right:\nadd.u32 %r1, %r1, %r2;\nbra next;\n"
    "done:\nret;\n}\n";

static const char gpu_source[] =
    "__device__ unsigned word(unsigned key, unsigned i)\n"
    "{ unsigned x = key + i * 2654435769u; x = (x ^ x >> 15) * 2246822519u; return x ^ x >> 13; }\n"
    "extern \"C\" __global__ void device_fill(unsigned *at, unsigned words, unsigned key)\n"
    "{ for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words;\n"
    "       i += gridDim.x * blockDim.x) at[i] = word(key, i); }\n"
    "extern \"C\" __global__ void device_check(const unsigned *at, unsigned words, unsigned key,\n"
    "                                        unsigned *wrong)\n"
    "{ for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words;\n"
    "       i += gridDim.x * blockDim.x) if (at[i] != word(key, i)) atomicAdd(wrong, 1u); }\n";

/* A failure of the driver while messages are in flight ends the job. */
static void gpu_must(int code, const char *call)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s: the driver returned %d\n", call, code);
    network_abort(1);
    exit(1);
}

static void gpu_launch(struct gpu_state *s, void *function, uint32_t words, void **arguments)
{
    unsigned blocks = (words + THREADS - 1) / THREADS;

    gpu_must(rgpu_use(s->device), "the context");
    gpu_must(s->launch(function, blocks < 1024 ? blocks : 1024, 1, 1, THREADS, 1, 1, 0, s->stream,
                       arguments, NULL),
             "a kernel");
}

static void gpu_fill(struct gpu *gpu, void *at, uint32_t words, uint32_t key)
{
    struct gpu_state *s = gpu->state;

    gpu_launch(s, s->fill, words, (void *[]){&at, &words, &key});
}

static uint32_t gpu_check(struct gpu *gpu, const void *at, uint32_t words, uint32_t key)
{
    struct gpu_state *s = gpu->state;
    uint32_t before = s->counted;

    gpu_launch(s, s->check, words, (void *[]){&at, &words, &key, &s->counter});
    gpu_must(s->stream_synchronize(s->stream), "the wait for a kernel");
    gpu_must(
        gpu->memory->copy_out(gpu->memory->argument, &s->counted, s->counter, sizeof(s->counted)),
        "the counter of wrong words");
    return s->counted - before;
}

static const char *gpu_error(struct gpu *gpu)
{
    struct gpu_state *s = gpu->state;

    rgpu_error(s->device, s->error, sizeof(s->error));
    return s->error;
}

/* ---- opening ---- */

/* A function of the driver's, into a pointer to it. */
static int gpu_find(struct gpu_state *s, const char *name, void *pointer, char *error, size_t bytes)
{
    void *function = rgpu_function(s->device, name);

    memcpy(pointer, &function, sizeof(function));
    if (function == NULL)
        (void)snprintf(error, bytes, "the driver has no %s", name);
    return function != NULL ? 0 : -ENOENT;
}

/* Finds a function of HIP's run-time compiler, in its own library or in that of HIP. */
static void *gpu_find_compiler(struct gpu_state *s, const char *name)
{
    static void *library;
    void *function = rgpu_function(s->device, name);

    if (function == NULL && library == NULL)
        library = dlopen("libhiprtc.so", RTLD_NOW);
    return function != NULL || library == NULL ? function : dlsym(library, name);
}

/* HIP: compiles the kernels into s->code. */
static int gpu_compile(struct gpu_state *s, char *error, size_t bytes)
{
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char **header, const char **include);
    int (*compile)(void *program, int options, const char **option);
    int (*code_size)(void *program, size_t *size), (*code)(void *program, char *to);
    int (*destroy)(void **program);
    const struct {
        const char *name;
        void *pointer;
    } functions[] = {{"hiprtcCreateProgram", &create},
                     {"hiprtcCompileProgram", &compile},
                     {"hiprtcGetCodeSize", &code_size},
                     {"hiprtcGetCode", &code},
                     {"hiprtcDestroyProgram", &destroy}};
    void *program = NULL;
    size_t size = 0;
    int rc;

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = gpu_find_compiler(s, functions[i].name);

        if (function == NULL) {
            (void)snprintf(error, bytes, "there is no %s (libhiprtc.so)", functions[i].name);
            return -ENOENT;
        }
        memcpy(functions[i].pointer, &function, sizeof(function));
    }
    rc = create(&program, gpu_source, "gpu.hip", 0, NULL, NULL);
    if (rc == 0)
        rc = compile(program, 0, NULL);
    if (rc == 0)
        rc = code_size(program, &size);
    s->code = rc == 0 ? malloc(size) : NULL;
    if (rc == 0 && s->code != NULL)
        rc = code(program, s->code);
    if (program != NULL)
        destroy(&program);
    if (rc == 0 && s->code != NULL)
        return 0;
    (void)snprintf(error, bytes, "the kernels were not compiled: error %d", rc);
    return -EIO;
}

static int gpu_load(struct gpu_state *s, int hip, char *error, size_t bytes)
{
    int (*load)(void **module, const void *image);
    int (*find)(void **function, void *module, const char *name);
    int (*stream_create)(void **stream, unsigned flags);
    const struct {
        const char *name[2];
        void *pointer;
    } functions[] = {{{"cuModuleLoadData", "hipModuleLoadData"}, &load},
                     {{"cuModuleGetFunction", "hipModuleGetFunction"}, &find},
                     {{"cuModuleUnload", "hipModuleUnload"}, &s->module_unload},
                     {{"cuLaunchKernel", "hipModuleLaunchKernel"}, &s->launch},
                     {{"cuStreamCreate", "hipStreamCreateWithFlags"}, &stream_create},
                     {{"cuStreamDestroy_v2", "hipStreamDestroy"}, &s->stream_destroy},
                     {{"cuStreamSynchronize", "hipStreamSynchronize"}, &s->stream_synchronize}};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(functions) / sizeof(functions[0]); i++)
        rc = gpu_find(s, functions[i].name[hip], functions[i].pointer, error, bytes);
    if (rc == 0 && hip)
        rc = gpu_compile(s, error, bytes);
    if (rc != 0)
        return rc;
    rc = load(&s->module, hip ? s->code : gpu_ptx);
    if (rc == 0)
        rc = find(&s->fill, s->module, "device_fill");
    if (rc == 0)
        rc = find(&s->check, s->module, "device_check");
    if (rc == 0)
        rc = stream_create(&s->stream, 1); /* not ordered with the default stream */
    if (rc != 0)
        (void)snprintf(error, bytes, "the kernels were not loaded: error %d of the driver", rc);
    return rc != 0 ? -EIO : 0;
}

static int gpu_counter(struct gpu *gpu, char *error, size_t bytes)
{
    struct gpu_state *s = gpu->state;
    int fd, rc;

    rc = gpu->memory->alloc(gpu->memory->argument, sizeof(s->counted), &s->counter, &fd);
    if (rc == 0) {
        close(fd);
        rc = gpu->memory->copy_in(gpu->memory->argument, s->counter, &s->counted,
                                  sizeof(s->counted));
    }
    if (rc != 0)
        rgpu_error(s->device, error, bytes);
    return rc;
}

static void gpu_close(struct gpu *gpu)
{
    struct gpu_state *s = gpu->state;

    if (s->counter != NULL)
        gpu->memory->free(gpu->memory->argument, s->counter, sizeof(s->counted));
    (void)rgpu_use(s->device);
    if (s->stream != NULL)
        s->stream_destroy(s->stream);
    if (s->module != NULL)
        s->module_unload(s->module);
    rgpu_close(s->device);
    free(s->code);
    free(s);
}

int gpu_open(struct gpu *gpu, const char *api, const char *library, int device, char *error,
             size_t bytes)
{
    struct gpu_state *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL)
        return -ENOMEM;
    rc = rgpu_open(&s->device, api, library, device, error, bytes);
    if (rc != 0) {
        free(s);
        return rc;
    }
    gpu->state = s;
    gpu->memory = rgpu_memory(s->device);
    gpu->fill = gpu_fill;
    gpu->check = gpu_check;
    gpu->error = gpu_error;
    gpu->close = gpu_close;
    (void)snprintf(gpu->name, sizeof(gpu->name), "%s (%s, device %d)", rgpu_name(s->device), api,
                   device);
    rc = rgpu_use(s->device);
    if (rc == 0)
        rc = gpu_load(s, strcmp(api, "hip") == 0, error, bytes);
    if (rc == 0)
        rc = gpu_counter(gpu, error, bytes);
    if (rc != 0) {
        gpu_close(gpu);
        return rc;
    }
    rgpu_wait_for(s->device, RGPU_WAIT_STREAM, s->stream);
    return 0;
}
