/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.c: one program, linked with librdmacm and with this library, calls the functions of both.
 *
 * librdmacm's rsockets export rread, rwrite, rclose, rpoll and others, some of which are short names here. Shown: with
 * RPIPE_NO_SHORT_NAMES the headers can be included side by side; each name is bound to its own library, whatever the order
 * of linking; and a message passes through a pipe to oneself after rsockets were at work.
 */
#define RPIPE_NO_SHORT_NAMES
#include <rpipe.h>

#include <rdma/rsocket.h>

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NEVER_OPENED 3000 /* a descriptor */

static int failed;

static void expect(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "names: not so: %s\n", what);
    failed = 1;
}

/* The file name of the shared object that `name` is found in by the dynamic linker's order. */
static const char *home_of(const char *name)
{
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, name);

    if (address == NULL || dladdr(address, &info) == 0)
        return "nowhere";
    return info.dli_fname;
}

static void names_are_bound_to_their_libraries(void)
{
    static const char *const theirs[] = {"rread", "rwrite", "rclose", "rpoll", "rsocket"};
    static const char *const ours[] = {"rpipe_read", "rpipe_write", "rpipe_close", "rpipe_poll",
                                       "rmalloc_alloc"};
    size_t i;

    for (i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        expect(strstr(home_of(theirs[i]), "librdmacm") != NULL, theirs[i]);
    for (i = 0; i < sizeof(ours) / sizeof(*ours); i++)
        expect(strstr(home_of(ours[i]), "librmalloc") != NULL, ours[i]);
}

/*
 * The calls arrive in librdmacm, and answer as rsockets do. Without an RDMA device there is no socket to be had, and rread
 * and rwrite of this version read no descriptor before they use it, so they are called only where there is one.
 */
static void rsockets_answer(void)
{
    char byte = 0;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);

    expect(rclose(NEVER_OPENED) == EBADF, "rclose of librdmacm refuses what is no socket");
    expect(rpoll(NULL, 0, 0) == 0, "rpoll of librdmacm finds nothing among nothing");
    if (fd < 0) {
        expect(errno != 0, "rsocket reports why there is none");
        return;
    }
    expect(rread(fd, &byte, 1) == -1, "rread of librdmacm refuses a socket without a connection");
    expect(rwrite(fd, &byte, 1) == -1, "rwrite of librdmacm refuses a socket without a connection");
    expect(rclose(fd) == 0, "rclose of librdmacm closes its socket");
}

static void a_message_passes(void)
{
    rpipe_config_t cfg = {0};
    int rank = -1, nranks = -1;
    rch_t writer, reader;
    size_t size = 0;
    char *text;
    raddr_t d;

    if (rpipe_init(&rank, &nranks) != R_SUCCESS) {
        expect(false, rpipe_error(NULL));
        return;
    }
    cfg.peer = rank;
    cfg.heap_bytes = 4096;
    cfg.role = RPIPE_WRITER;
    expect(rpipe_open(&writer, &cfg) == R_SUCCESS, "the writer opens");
    cfg.role = RPIPE_READER;
    expect(rpipe_open(&reader, &cfg) == R_SUCCESS, "the reader opens");
    if (!failed) {
        text = (d = rmalloc_alloc(writer, 100)) != ADDR_NULL ? rmalloc_ptr(writer, d) : NULL;
        expect(text != NULL, "there is memory");
        if (text != NULL)
            strcpy(text, "both at home");
        expect(text != NULL && rpipe_write(writer, d) == R_SUCCESS, "the message is written");
        text = failed || rpipe_read(reader, &d, &size) != R_SUCCESS ? NULL : rmalloc_ptr(reader, d);
        expect(text != NULL && size == 100 && strcmp(text, "both at home") == 0,
               "the message is read");
        expect(text != NULL && rmalloc_free(reader, d) == R_SUCCESS, "the message is freed");
        expect(rpipe_close(writer) == R_SUCCESS, "the writer closes");
        expect(rpipe_close(reader) == R_SUCCESS, "the reader closes");
    }
    expect(rpipe_exit() == R_SUCCESS, "the job ends");
}

int main(void)
{
    names_are_bound_to_their_libraries();
    rsockets_answer();
    a_message_passes();
    return failed;
}
