/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher.c: see launcher.h.
 *
 * Slurm comes first: with its plug-in pmi2 it sets the variables of PMI too. Slurm sets SLURM_NTASKS
 * for a whole allocation and SLURM_STEP_NUM_TASKS for a step, which is what srun starts. Only
 * numbers of the environment are printed.
 */
#include "bootstrap/launcher.h"

#include <stdlib.h>

static const struct launcher {
    const char *name, *rank, *size[2]; /* variables; the first of `size` that is set counts */
    const char *remedy, *module;
} launcher_table[] = {
    {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "srun --mpi=pmix", NULL},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE", NULL},
     "the mpirun of Open MPI 4 or later, and let it pass its variables PMIX_* on",
     "job_openmpi"},
    {"the mpiexec of MPICH (Hydra), or one like it",
     "PMI_RANK",
     {"PMI_SIZE", NULL},
     "the mpirun of Open MPI, prterun, or srun --mpi=pmix; or install the module job_mpich",
     "job_mpich"},
};

/* The number that a variable has; -1: none. */
static long launcher_number(const char *variable)
{
    const char *text = variable != NULL ? getenv(variable) : NULL;
    char *end = NULL;
    long number = text != NULL ? strtol(text, &end, 10) : -1;

    return end != NULL && end != text && *end == '\0' && number >= 0 ? number : -1;
}

bool launcher_without_pmix(bool *first, struct error *err)
{
    size_t i;

    for (i = 0; i < sizeof(launcher_table) / sizeof(launcher_table[0]); i++) {
        const struct launcher *l = &launcher_table[i];
        int which = launcher_number(l->size[0]) < 0;
        long rank = launcher_number(l->rank), size = launcher_number(l->size[which]);

        if (rank < 0 || size < 2)
            continue;
        *first = rank == 0;
        error_note(err,
                   "%s started this process as number %ld of %ld (%s, %s), but without PMIx: each "
                   "of them is a job of its own, of one rank; start them with %s, or set "
                   "RPIPE_RANK, RPIPE_SIZE and RPIPE_ROOT (rmalloc(7)); RPIPE_BOOTSTRAP=single if "
                   "that is what it should be",
                   l->name, rank, size, l->rank, l->size[which], l->remedy);
        return true;
    }
    return false;
}

const char *launcher_mpi_module(void)
{
    size_t i;

    for (i = 0; i < sizeof(launcher_table) / sizeof(launcher_table[0]); i++) {
        const struct launcher *l = &launcher_table[i];

        if (launcher_number(l->rank) >= 0)
            return launcher_number(l->size[0]) >= 2 ? l->module : NULL;
    }
    return NULL;
}
