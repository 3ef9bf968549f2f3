/* SPDX-License-Identifier: BSD-3-Clause */
/* sgd_net.c: see sgd_net.h. */
#include "sgd_net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOMENTUM 0.9

/* ---- samples ---- */

/* A number from 0 to 1 that follows from its arguments. */
static double chance(uint64_t what, uint64_t i)
{
    return (double)(app_mix(app_mix(what + 1) + i) >> 11) * 0x1p-53;
}

/* Point i, within -1..1, and its spiral. */
static int sample_of(const struct sgd_options *o, int i, double in[SGD_INPUTS])
{
    int label = i % SGD_CLASSES;
    double along = ((double)i / SGD_CLASSES + 0.5) / ((double)o->samples / SGD_CLASSES);
    double turn = 2 * M_PI * (along * 0.8 + (double)label / SGD_CLASSES) +
                  0.3 * (chance(1, (uint64_t)i) - 0.5);

    in[0] = (0.05 + 0.9 * along) * cos(turn);
    in[1] = (0.05 + 0.9 * along) * sin(turn);
    return label;
}

static int sample_of_step(const struct sgd_options *o, int step, int i)
{
    uint64_t number = (uint64_t)step * (uint64_t)o->batch + (uint64_t)i;

    return (int)(app_mix(number + 1) % (uint64_t)o->samples);
}

/* ---- the net: weights of a unit are those of its inputs and its threshold ---- */

static size_t weights_of(const struct sgd_options *o, int layer)
{
    return layer == SGD_HIDDEN ? (size_t)o->hidden * (SGD_INPUTS + 1)
                               : (size_t)SGD_CLASSES * ((size_t)o->hidden + 1);
}

size_t sgd_elements(const struct sgd_options *o, int layer)
{
    return weights_of(o, layer) + (layer == SGD_OUTPUT);
}

int sgd_create(struct sgd_net *net, const struct sgd_options *o)
{
    size_t batch = (size_t)o->batch;
    bool failed = false;

    net->options = *o;
    net->output = calloc(batch * SGD_CLASSES, sizeof(double));
    net->unit = calloc(batch * (size_t)o->hidden, sizeof(double));
    for (int layer = 0; layer < SGD_LAYERS; layer++) {
        size_t n = weights_of(o, layer);
        double range = layer == SGD_HIDDEN ? 4 : 2 / sqrt(o->hidden);

        net->weight[layer] = malloc(n * sizeof(double));
        net->speed[layer] = calloc(n, sizeof(double));
        failed = failed || net->weight[layer] == NULL || net->speed[layer] == NULL;
        for (size_t i = 0; i < n && !failed; i++)
            net->weight[layer][i] = range * (chance(2 + (uint64_t)layer, i) - 0.5);
    }
    return failed || net->output == NULL || net->unit == NULL ? -ENOMEM : 0;
}

void sgd_destroy(struct sgd_net *net)
{
    for (int layer = 0; layer < SGD_LAYERS; layer++) {
        free(net->weight[layer]);
        free(net->speed[layer]);
    }
    free(net->output);
    free(net->unit);
}

void sgd_copy(struct sgd_net *to, const struct sgd_net *from)
{
    for (int layer = 0; layer < SGD_LAYERS; layer++) {
        size_t bytes = weights_of(&from->options, layer) * sizeof(double);

        memcpy(to->weight[layer], from->weight[layer], bytes);
        memcpy(to->speed[layer], from->speed[layer], bytes);
    }
    to->loss = from->loss;
}

/* The hidden units of a point, and the probabilities of the classes. */
static void forward(const struct sgd_net *net, const double in[SGD_INPUTS], double *unit,
                    double out[SGD_CLASSES])
{
    const double *w = net->weight[SGD_HIDDEN];
    int hidden = net->options.hidden;
    double sum = 0;

    for (int h = 0; h < hidden; h++, w += SGD_INPUTS + 1)
        unit[h] = tanh(w[0] * in[0] + w[1] * in[1] + w[2]);
    w = net->weight[SGD_OUTPUT];
    for (int c = 0; c < SGD_CLASSES; c++, w += hidden + 1) {
        double net_input = w[hidden];

        for (int h = 0; h < hidden; h++)
            net_input += w[h] * unit[h];
        out[c] = exp(net_input);
        sum += out[c];
    }
    for (int c = 0; c < SGD_CLASSES; c++)
        out[c] /= sum;
}

static void gradient_of_output(struct sgd_net *net, int step, int first, int end, double *g)
{
    int hidden = net->options.hidden;

    for (int i = first; i < end; i++) {
        double in[SGD_INPUTS], *out = net->output + (size_t)i * SGD_CLASSES,
                               *unit = net->unit + (size_t)i * (size_t)hidden, *to = g;
        int label = sample_of(&net->options, sample_of_step(&net->options, step, i), in);

        forward(net, in, unit, out);
        g[weights_of(&net->options, SGD_OUTPUT)] -= log(out[label]);
        out[label] -= 1;
        for (int c = 0; c < SGD_CLASSES; c++, to += hidden + 1) {
            for (int h = 0; h < hidden; h++)
                to[h] += out[c] * unit[h];
            to[hidden] += out[c];
        }
    }
}

/* Uses what gradient_of_output() has left of each sample. */
static void gradient_of_hidden(struct sgd_net *net, int step, int first, int end, double *g)
{
    int hidden = net->options.hidden;
    const double *w = net->weight[SGD_OUTPUT];

    for (int i = first; i < end; i++) {
        const double *out = net->output + (size_t)i * SGD_CLASSES,
                     *unit = net->unit + (size_t)i * (size_t)hidden;
        double in[SGD_INPUTS], *to = g;

        (void)sample_of(&net->options, sample_of_step(&net->options, step, i), in);
        for (int h = 0; h < hidden; h++, to += SGD_INPUTS + 1) {
            double back = 0;

            for (int c = 0; c < SGD_CLASSES; c++)
                back += out[c] * w[c * (hidden + 1) + h];
            back *= 1 - unit[h] * unit[h];
            to[0] += back * in[0];
            to[1] += back * in[1];
            to[2] += back;
        }
    }
}

void sgd_gradient(struct sgd_net *net, int layer, int step, int member, int members,
                  double *gradient)
{
    int first = (int)((long)net->options.batch * member / members),
        end = (int)((long)net->options.batch * (member + 1) / members);

    memset(gradient, 0, sgd_elements(&net->options, layer) * sizeof(double));
    if (layer == SGD_OUTPUT)
        gradient_of_output(net, step, first, end, gradient);
    else
        gradient_of_hidden(net, step, first, end, gradient);
}

void sgd_update(struct sgd_net *net, int layer, const double *sum, size_t begin, size_t count)
{
    size_t weights = weights_of(&net->options, layer);
    double rate = net->options.rate * 1e-3 / net->options.batch;

    for (size_t i = begin; i < begin + count && i < weights; i++) {
        net->speed[layer][i] = MOMENTUM * net->speed[layer][i] - rate * sum[i - begin];
        net->weight[layer][i] += net->speed[layer][i];
    }
    if (layer == SGD_OUTPUT && begin + count > weights)
        net->loss = sum[weights - begin] / net->options.batch;
}

/* ---- the run of one process ---- */

static void add(double *into, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        into[i] += from[i];
}

void sgd_fold(double *const *arrays, int n, size_t count)
{
    int power = 1, pairs;

    while (2 * power <= n)
        power *= 2;
    pairs = n - power; /* leaf i is arrays 2i and 2i + 1, or, behind these, one array */
    for (int i = 0; i < pairs; i++)
        add(arrays[2 * i], arrays[2 * i + 1], count);
    for (int half = 1; half < power; half *= 2) {
        for (int i = 0; i < power; i += 2 * half) {
            int left = i < pairs ? 2 * i : i + pairs,
                right = i + half < pairs ? 2 * (i + half) : i + half + pairs;

            add(arrays[left], arrays[right], count);
        }
    }
}

static void serial_step(struct sgd_net *net, int step, int members, double *const *gradients)
{
    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--)
        for (int m = 0; m < members; m++)
            sgd_gradient(net, layer, step, m, members, gradients[layer * members + m]);
    for (int layer = SGD_LAYERS - 1; layer >= 0; layer--) {
        size_t elements = sgd_elements(&net->options, layer);

        sgd_fold(gradients + layer * members, members, elements);
        sgd_update(net, layer, gradients[layer * members], 0, elements);
    }
}

/* Steps from `first` to `end` - 1; 0 or -ENOMEM. */
static int serial_steps(struct sgd_net *net, int first, int end, int members)
{
    double **gradients = calloc((size_t)members * SGD_LAYERS, sizeof(*gradients));
    int rc = gradients == NULL ? -ENOMEM : 0;

    for (int i = 0; i < members * SGD_LAYERS && rc == 0; i++) {
        gradients[i] = malloc(sgd_elements(&net->options, i / members) * sizeof(double));
        rc = gradients[i] == NULL ? -ENOMEM : 0;
    }
    for (int step = first; step < end && rc == 0; step++)
        serial_step(net, step, members, gradients);
    for (int i = 0; i < members * SGD_LAYERS && gradients != NULL; i++)
        free(gradients[i]);
    free(gradients);
    return rc;
}

int sgd_compare(const char *app, const struct sgd_net *net, const struct sgd_era *era, int eras,
                bool bits)
{
    struct sgd_net alone = {0};
    double most = 0;
    bool same = sgd_create(&alone, &net->options) == 0;

    for (int i = 0; i < eras && same; i++)
        same =
            serial_steps(&alone, era[i].first, i + 1 < eras ? era[i + 1].first : net->options.steps,
                         era[i].members) == 0;
    for (int layer = 0; layer < SGD_LAYERS && same; layer++) {
        size_t n = weights_of(&net->options, layer);

        for (size_t i = 0; i < n; i++)
            most = fmax(most, fabs(net->weight[layer][i] - alone.weight[layer][i]));
        if (bits && memcmp(net->weight[layer], alone.weight[layer], n * sizeof(double)) != 0)
            same = false;
    }
    same = same && most < 1e-6;
    sgd_destroy(&alone);
    if (!same)
        fprintf(stderr, "%s: WRONG: weights differ by up to %g from those of one process%s\n", app,
                most, bits ? ", where no bit may differ" : "");
    else if (!app_options.json && bits)
        printf("%s: right: all weights equal those of one process bit for bit\n", app);
    else if (!app_options.json)
        printf("%s: right: weights differ by up to %.1e from those of one process\n", app, most);
    return same ? 0 : 1;
}

/* ---- the result ---- */

static int answer(const double out[SGD_CLASSES])
{
    int best = 0;

    for (int c = 1; c < SGD_CLASSES; c++)
        best = out[c] > out[best] ? c : best;
    return best;
}

double sgd_right(const struct sgd_net *net)
{
    int right = 0;

    for (int i = 0; i < net->options.samples; i++) {
        double in[SGD_INPUTS], out[SGD_CLASSES];
        int label = sample_of(&net->options, i, in);

        forward(net, in, net->unit, out);
        right += answer(out) == label;
    }
    return (double)right / net->options.samples;
}

uint64_t sgd_digest(const struct sgd_net *net)
{
    uint64_t digest = 0;

    for (int layer = 0; layer < SGD_LAYERS; layer++) {
        for (size_t i = 0; i < weights_of(&net->options, layer); i++) {
            int64_t rounded = llrint(net->weight[layer][i] * 4096);

            digest = app_digest(digest, &rounded, 1);
        }
    }
    return digest;
}

void sgd_draw_losses(struct picture *p, int top, int high, const double *loss, int steps)
{
    for (int decade = 0; decade < 4; decade++)
        for (int x = 0; x < p->width; x++)
            picture_mix(p, x, top + (2 * decade + 1) * high / 8, 0xffffff, 0.2);
    for (int i = 0; i < steps; i++) {
        double down = (0.5 - log10(fmax(loss[i], 1e-9))) / 4 * high;
        int x = (int)((long)i * p->width / steps), y = top + (int)fmin(fmax(down, 0), high - 2);

        for (int k = 0; k < 4; k++)
            picture_mix(p, x + k % 2, y + k / 2, 0xfbc84a, 0.7);
    }
}

int sgd_draw(const struct sgd_net *net, const double *loss, struct picture *p)
{
    static const uint32_t colour[SGD_CLASSES] = {0x2f6fd0, 0xe55a35, 0xfbc84a};
    const int side = 480, curve = 180;
    double in[SGD_INPUTS], out[SGD_CLASSES];

    if (picture_create(p, side, side + curve, 0x10131a) != 0)
        return -ENOMEM;
    sgd_draw_losses(p, side, curve, loss, net->options.steps);
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            int best;

            in[0] = (x + 0.5) / side * 2.2 - 1.1;
            in[1] = (y + 0.5) / side * 2.2 - 1.1;
            forward(net, in, net->unit, out);
            best = answer(out);
            picture_mix(p, x, y, colour[best], 0.15 + 0.6 * (out[best] * 1.5 - 0.5));
        }
    }
    for (int i = 0; i < net->options.samples; i++) {
        int label = sample_of(&net->options, i, in);

        for (int k = 0; k < 9; k++)
            picture_mix(p, (int)((in[0] + 1.1) / 2.2 * side) + k % 3 - 1,
                        (int)((in[1] + 1.1) / 2.2 * side) + k / 3 - 1,
                        k == 4 ? 0xffffff : colour[label], k % 2 == 0 ? 0.6 : 0.9);
    }
    return 0;
}
