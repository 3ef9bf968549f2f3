/* SPDX-License-Identifier: BSD-3-Clause */
/* feature.c: see feature.h. */
#include "rpipe/end/feature.h"

void features_register_messages(void)
{
    for (int i = 0; end_features[i] != NULL; i++)
        for (const struct feature_message *m = end_features[i]->messages; m != NULL && m->type != 0;
             m++)
            message_register(m->type, &m->handler);
}

int features_open(struct rch *ch, struct error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && end_features[i] != NULL; i++)
        if (end_features[i]->open != NULL)
            rc = end_features[i]->open(ch, err);
    return rc;
}

void features_offer(const struct rch *ch, struct handshake *h)
{
    for (int i = 0; end_features[i] != NULL; i++)
        if (end_features[i]->offer != NULL)
            end_features[i]->offer(ch, h);
}

int features_attach(struct rch *ch, const struct handshake *h, struct error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && end_features[i] != NULL; i++)
        if (end_features[i]->attach != NULL)
            rc = end_features[i]->attach(ch, h, err);
    return rc;
}

int features_settled(struct rch *ch)
{
    int rc = 0;

    for (int i = 0; rc == 0 && end_features[i] != NULL; i++)
        if (end_features[i]->settled != NULL)
            rc = end_features[i]->settled(ch);
    return rc;
}

int features_quiesce(struct rch *ch, struct awaited *awaited)
{
    int rc = 0;

    for (int i = 0; rc == 0 && end_features[i] != NULL; i++)
        if (end_features[i]->quiesce != NULL)
            rc = end_features[i]->quiesce(ch, awaited);
    return rc;
}

void features_peer_lost(struct rch *ch, int code)
{
    for (int i = 0; end_features[i] != NULL; i++)
        if (end_features[i]->peer_lost != NULL)
            end_features[i]->peer_lost(ch, code);
}

void features_close(struct rch *ch)
{
    for (int i = 0; end_features[i] != NULL; i++)
        if (end_features[i]->close != NULL)
            end_features[i]->close(ch);
}

void features_release(struct rch *ch)
{
    int i = 0;

    while (end_features[i] != NULL)
        i++;
    while (i-- > 0)
        if (end_features[i]->release != NULL)
            end_features[i]->release(ch);
}

void features_leave(int64_t deadline)
{
    for (int i = 0; end_features[i] != NULL; i++)
        if (end_features[i]->leave != NULL)
            end_features[i]->leave(deadline);
}
