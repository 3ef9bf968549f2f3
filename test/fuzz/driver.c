/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libFuzzer's main() does with files: each is given to the fuzzer's function, once. So the corpus is a test with any
 * compiler. usage: FUZZER FILE|DIRECTORY...
 */
#include "input.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned files;

static void stop(const char *path)
{
    perror(path);
    exit(2);
}

static void replay_file(const char *path, size_t bytes)
{
    uint8_t *data =
        malloc(bytes + (bytes == 0)); /* exactly, so that a sanitizer sees a read beyond it */
    FILE *f = fopen(path, "rb");

    if (data == NULL || f == NULL || fread(data, 1, bytes, f) != bytes)
        stop(path);
    fclose(f);
    printf("%s, %zu bytes\n", path, bytes);
    fflush(stdout); /* the last line names the file that fails */
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    files++;
}

static void replay(const char *path)
{
    char inside[4096];
    struct stat st;
    struct dirent *entry;
    DIR *dir;

    if (stat(path, &st) != 0)
        stop(path);
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return;
    }
    dir = opendir(path);
    if (dir == NULL)
        stop(path);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        replay(inside);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%u files\n", files);
    return files > 0 ? 0 : 2;
}
