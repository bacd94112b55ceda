/* A few threads for one call. Part 0 is done here; a part whose thread cannot be started, too. */

#include <pthread.h>

#define MOST 64 /* threads */

static long shares(long threads, long pieces) { /* how many parts to make */
    long count = threads < pieces ? threads : pieces;
    return count < 1 ? 1 : count > MOST ? MOST : count;
}

static long share(long t, long count, long pieces) { return t * pieces / count; } /* where part t begins */

static void in_threads(void *(*work)(void *), void *parts, long size, long count) {
    pthread_t running[MOST];
    int started[MOST] = {0};
    for (long t = 1; t < count; t++) started[t] = pthread_create(running + t, NULL, work, (char *)parts + t * size) == 0;
    work(parts);
    for (long t = 1; t < count; t++)
        if (started[t])
            pthread_join(running[t], NULL);
        else
            work((char *)parts + t * size);
}
