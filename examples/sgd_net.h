/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sgd_net.h: a perceptron of two layers that learns to part three spirals, and its run by one
 * process: everything but the communication.
 *
 * The samples of a step follow from its number, and are divided among the members of a team. Each
 * computes the gradient of its share, first that of the output layer, then that of the hidden one;
 * the sums of all shares change the weights, which are the same at all members.
 *
 * Sums of floating-point numbers depend on the order. sgd_fold() has the order of RCOLL_ORDERED: so
 * one process that computes all shares gets the same bits.
 */
#ifndef EXAMPLES_SGD_NET_H
#define EXAMPLES_SGD_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "app.h"
#include "picture.h"

enum { SGD_HIDDEN, SGD_OUTPUT, SGD_LAYERS };
#define SGD_INPUTS 2
#define SGD_CLASSES 3

struct sgd_options {
    int hidden, samples, batch, steps, rate;
};
#define SGD_OPTIONS_DEFAULT                                                                        \
    {                                                                                              \
        64, 1500, 240, 3000, 200                                                                   \
    }
#define SGD_OPTIONS_QUICK                                                                          \
    {                                                                                              \
        16, 300, 60, 40, 200                                                                       \
    }
#define SGD_OPTION_TABLE(o)                                                                        \
    APP_INT("hidden", 'h', &(o).hidden, 1, 4096, "Units of the hidden layer"),                     \
        APP_INT("samples", 's', &(o).samples, 3, 1000000, "Points of the three spirals"),          \
        APP_INT("batch", 'b', &(o).batch, 1, 1000000, "Points of a step, of all processes"),       \
        APP_INT("steps", 'n', &(o).steps, 1, 10000000, "Steps of training"),                       \
        APP_INT("rate", 'r', &(o).rate, 1, 10000, "Learning rate, in thousandths")

struct sgd_net {
    struct sgd_options options;
    double *weight[SGD_LAYERS], *speed[SGD_LAYERS]; /* speed: what a step adds, with momentum */
    double *output, *unit;                          /* of each sample of a share: gradient of the
                                                       outputs, and hidden units */
    double loss;                                    /* mean of the last step */
};
int sgd_create(struct sgd_net *net, const struct sgd_options *o); /* 0 or -ENOMEM */
void sgd_destroy(struct sgd_net *net);

/* Elements of the gradient of a layer: one for each weight; and, in the output layer, the loss. */
size_t sgd_elements(const struct sgd_options *o, int layer);
/* The gradient of the share of a member, summed. The output layer comes first. */
void sgd_gradient(struct sgd_net *net, int layer, int step, int member, int members,
                  double *gradient);
/* Changes weights by `count` elements of the sum of all gradients, from element `begin` on. */
void sgd_update(struct sgd_net *net, int layer, const double *sum, size_t begin, size_t count);

/*
 * The sum of n arrays, into the first, in the order of RCOLL_ORDERED: of the n, as many pairs are
 * added as leave a power of two; then neighbours are added, until one is left.
 */
void sgd_fold(double *const *arrays, int n, size_t count);

/* to = from, which has the same options. */
void sgd_copy(struct sgd_net *to, const struct sgd_net *from);

/* From a step on, so many members share the samples. */
struct sgd_era {
    int first, members;
};
/*
 * Compares with a run of one process, which computes the shares of all members. 0; or 1, after
 * printing that weights differ: by a bit, or else by more than rounding.
 */
int sgd_compare(const char *app, const struct sgd_net *net, const struct sgd_era *era, int eras,
                bool bits);

double sgd_right(const struct sgd_net *net);    /* share of the samples that it classifies right */
uint64_t sgd_digest(const struct sgd_net *net); /* of the weights, rounded */
/* What it answers everywhere; below, the loss of each step. 0 or -ENOMEM. */
int sgd_draw(const struct sgd_net *net, const double *loss, struct picture *p);
/*
 * The loss of each step, on a logarithmic scale, in `high` rows of a picture from `top` on, with
 * lines at 1, 0.1, 0.01 and 0.001.
 */
void sgd_draw_losses(struct picture *p, int top, int high, const double *loss, int steps);

#endif
