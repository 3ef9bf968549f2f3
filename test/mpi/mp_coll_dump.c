/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program can print: the reduction of figure 5.4 of the thesis by five members, in each format of rcoll_dump; a graph of the program's
 * own; and with RCOLL_EXPLAIN=1 what is chosen for a plan, and among what. Settings that differ between members are those of member 0 at all.
 */
#include "test/lib/mp_check.h"

#include <rcoll.h>
#include <stdlib.h>
#include <unistd.h>

#define NODES 5
#define TEXT_MOST 16384

/* ---- rcoll_dump ---- */

static char *dump_of(rplan_t plan, rcoll_format_t format)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    CHECK(NULL, to != NULL);
    CHECK_OK(NULL, rcoll_dump(plan, format, to));
    CHECK(NULL, fclose(to) == 0 && text != NULL);
    return text;
}

static void must_have(const char *text, const char *part)
{
    REQUIRE(strstr(text, part) != NULL, "rank %d: \"%s\" is not in\n%s", mp_rank, part, text);
}

static void dump_has(rplan_t plan, rcoll_format_t format, const char *part)
{
    char *text = dump_of(plan, format);

    must_have(text, part);
    free(text);
}

static int occurrences(const char *text, const char *part)
{
    int n = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

/* Figure 5.4: nodes 1, 3 and 4 send at once, node 2 when it has what node 3 sends. */
static void own_graph(rplan_t plan)
{
    static const int parent[NODES] = {-1, 0, 0, 2, 0};
    char *text = dump_of(plan, RCOLL_TEXT), part[200];

    snprintf(part, sizeof(part), "member %d of %d: 4 bytes FROM", mp_rank, NODES);
    must_have(text, part);
    snprintf(part, sizeof(part), " to %d, slot 0", parent[mp_rank]);
    if (mp_rank > 0)
        must_have(text, part);
    CHECK(NULL, occurrences(text, ": send ") == (mp_rank > 0));
    CHECK(NULL, occurrences(text, ": fold ") == (mp_rank == 0 ? 3 : mp_rank == 2));
    if (mp_rank == 2)
        CHECK(NULL, strcmp(text, "member 2 of 5: 4 bytes FROM, 0 INTO, 4 SCRATCH\n"
                                 "  0: recv 4 bytes of member 3, slot 0\n"
                                 "  1: copy 4 bytes of FROM+0 into SCRATCH+0\n"
                                 "  2: fold 4 bytes of view 0+0 into SCRATCH+0; after 0, 1\n"
                                 "  3: send 4 bytes of SCRATCH+0 to 0, slot 0; after 2\n") == 0);
    free(text);
    snprintf(part, sizeof(part), "{\"member\": %d, \"size\": %d, \"from\": 4, ", mp_rank, NODES);
    dump_has(plan, RCOLL_JSON, part);
    if (mp_rank == 2)
        dump_has(plan, RCOLL_JSON,
                 "{\"id\": 3, \"kind\": \"send\", \"bytes\": 4, \"slot\": 0, \"to\": [0], "
                 "\"from\": \"SCRATCH+0\", \"after\": [2]}\n");
}

/* Each member prints the graphs of all: four channels. */
static void graphs_of_all(rplan_t plan)
{
    static const char goal[] = "rank 2 {\nl0r0: recv 4b from 3 tag 0\nl1r0: calc 1\nl2r0: calc 1\n"
                               "l3r0: send 4b to 0 tag 0\nl2r0 requires l0r0\nl2r0 requires l1r0\n"
                               "l3r0 requires l2r0\n}\n";
    char *dot = dump_of(plan, RCOLL_DOT);

    must_have(dot, "digraph plan {\n");
    must_have(dot, "  m3o0 -> m2o0 [color=blue];\n");
    CHECK(NULL, occurrences(dot, "[color=blue]") == NODES - 1);
    CHECK(NULL, occurrences(dot, "subgraph cluster") == NODES);
    free(dot);
    dump_has(plan, RCOLL_GOAL, "num_ranks 5\nrank 0 {\n");
    dump_has(plan, RCOLL_GOAL, goal);
}

static void figure_5_4(rteam_t team)
{
    int32_t from = mp_rank, into = 0;
    rcoll_params_t p = {.kind = RCOLL_REDUCE,
                        .from = &from,
                        .into = &into,
                        .count = 1,
                        .type = RGROUP_INT32,
                        .op = RGROUP_SUM,
                        .algorithm = "binomial"};
    rplan_t plan;

    CHECK_OK(NULL, rcoll_plan(&plan, team, &p));
    own_graph(plan);
    graphs_of_all(plan);
    CHECK_RC(-EINVAL, NULL, rcoll_dump(plan, (rcoll_format_t)4, stdout));
    CHECK_RC(-EINVAL, NULL, rcoll_dump(plan, RCOLL_TEXT, NULL));
    CHECK_RC(-EINVAL, NULL, rcoll_dump(NULL, RCOLL_TEXT, stdout));
    CHECK_OK(NULL, rcoll_start(plan)); /* what has been printed can be executed */
    CHECK_OK(NULL, rcoll_wait(plan));
    CHECK(NULL, mp_rank != 0 || into == NODES * (NODES - 1) / 2);
    CHECK_OK(NULL, rcoll_free(plan));
}

/* A member has its own graph alone, so it cannot print those of all. */
static void graph_of_the_program(rteam_t team)
{
    const int next = (mp_rank + 1) % NODES, last = (mp_rank + NODES - 1) % NODES;
    uint64_t from = (uint64_t)mp_rank, into = 0;
    rgraph_t graph;
    rplan_t plan;
    rcoll_ref_t got = {.base = -1};

    CHECK_OK(NULL, rcoll_graph(&graph, team, 0));
    CHECK(NULL, rcoll_graph_send(graph, &next, 1, 7, (rcoll_ref_t){.base = RCOLL_FROM},
                                 sizeof(from)) >= 0);
    got.base = rcoll_graph_recv(graph, last, 7, sizeof(into));
    CHECK(NULL, rcoll_graph_copy(graph, (rcoll_ref_t){.base = RCOLL_INTO}, got, sizeof(into)) >= 0);
    CHECK_OK(NULL, rcoll_graph_plan(&plan, graph, &from, sizeof(from), &into, sizeof(into)));
    dump_has(plan, RCOLL_TEXT, "  2: copy 8 bytes of view 1+0 into INTO+0; after 1\n");
    dump_has(plan, RCOLL_JSON, "\"slot\": 7");
    CHECK_RC(-ENOTSUP, NULL, rcoll_dump(plan, RCOLL_DOT, stdout));
    CHECK_ERROR(NULL, "of itself alone");
    CHECK_RC(-ENOTSUP, NULL, rcoll_dump(plan, RCOLL_GOAL, stdout));
    CHECK_OK(NULL, rcoll_start(plan));
    CHECK_OK(NULL, rcoll_wait(plan));
    CHECK(NULL, into == (uint64_t)last);
    CHECK_OK(NULL, rcoll_free(plan));
}

/* ---- RCOLL_EXPLAIN ---- */

/* What is written to stderr while a plan of these parameters is made. */
static void explained(rteam_t team, const rcoll_params_t *p, char text[TEXT_MOST])
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    rplan_t plan;
    size_t bytes;

    CHECK(NULL, file != NULL && saved >= 0);
    fflush(stderr);
    CHECK(NULL, dup2(fileno(file), STDERR_FILENO) >= 0);
    CHECK_OK(NULL, rcoll_plan(&plan, team, p));
    fflush(stderr);
    CHECK(NULL, dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(file);
    bytes = fread(text, 1, TEXT_MOST - 1, file);
    text[bytes] = '\0';
    fclose(file);
    CHECK_OK(NULL, rcoll_free(plan));
}

/* Each member sends to its right neighbor alone: a ring, as member 0 has it, and no tree. */
static void own_ring(rteam_t team, const rcoll_params_t *p)
{
    char part[40], *text;
    rplan_t plan;

    CHECK_OK(NULL, rcoll_plan(&plan, team, p));
    text = dump_of(plan, RCOLL_TEXT);
    snprintf(part, sizeof(part), " to %d, slot ", (mp_rank + 1) % NODES);
    CHECK(NULL, occurrences(text, ": send ") == 2 * (NODES - 1));
    CHECK(NULL, occurrences(text, part) == 2 * (NODES - 1));
    free(text);
    CHECK_OK(NULL, rcoll_free(plan));
}

static void settings_of_member_0(void)
{
    const char *rank = getenv("PMIX_RANK");
    bool first = rank == NULL || strcmp(rank, "0") == 0;

    setenv("RCOLL_ALGORITHM", first ? "allreduce=ring" : "allreduce=tree:3", 1);
    setenv("RCOLL_MODEL", first ? "L=150" : "sigma=77 m=500", 1);
}

static void explanations(rteam_t team)
{
    double from[100] = {0}, into[100];
    rcoll_params_t p = {.kind = RCOLL_ALLREDUCE,
                        .from = from,
                        .into = into,
                        .count = 100,
                        .type = RGROUP_DOUBLE,
                        .op = RGROUP_SUM};
    char text[TEXT_MOST];

    own_ring(team, &p);
    explained(team, &p, text);
    CHECK_OK(NULL, rcoll_run(team, &p)); /* alike at all members */
    if (mp_rank != 0) {
        CHECK(NULL, text[0] == '\0');
        return;
    }
    must_have(text, "allreduce of 100 elements of 8 bytes, 5 members on 1 hosts of ");
    must_have(text, " cores: ring\n");
    must_have(text, "  flat ");
    must_have(text, "  exchange ");
    must_have(text, "  tree:2 ");
}

int main(int argc, char **argv)
{
    rteam_t team;

    setenv("RCOLL_EXPLAIN", "1", 1);
    settings_of_member_0();
    mp_begin(argc, argv, NODES);
    REQUIRE(mp_ranks == NODES, "%d ranks; figure 5.4 has %d", mp_ranks, NODES);
    CHECK_OK(NULL, rcoll_team(&team, NULL, NULL, NODES));
    figure_5_4(team);
    graph_of_the_program(team);
    explanations(team);
    CHECK_OK(NULL, rcoll_close(team));
    return mp_end();
}
