/* Products in fixed point for training on AVX2 or AVX-512: float32 in, float32 out.

   Each CHUNK of a row of A and of a column of B is rounded to whole numbers within ±LIMIT times a scale of its own, its largest
   number / LIMIT. Two 16-bit products are added in one instruction, which is twice as many as a float32 multiply-add makes. Sums
   of a chunk fit 32 bits whatever the numbers are; they are added up in float32. Numbers 2k and 2k + 1 lie side by side, as a
   pair. Rows of A are kept in blocks of ROWS: pair by pair the rows of the block. Columns of B are kept in panels of COLUMNS.
   What depends on the instructions is in avx2.h and avx512.h; both give the same sums. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* What is added to a tile of C: sums over pairs of a block and a panel, with their scales. */
typedef struct {
    long pairs;
    const int32_t *a, *b;
    const float *a_scale, *b_scale;
    const int32_t *next; /* the panel that is read next, to be prefetched; or NULL */
} Terms;

#ifdef __AVX512VNNI__
#include "avx512.h"
#else
#include "avx2.h"
#endif

#define LIMIT 2895
#define CHUNK 256
#define DEPTH 3     /* chunks of a group of blocks that stay in the second cache */
#define FITS 600000 /* bytes of B that stay there */
#define FEW 4       /* blocks of a group where all of B stays there */

typedef struct {
    int32_t *at;  /* pairs */
    float *scale; /* block by block (or panel by panel), chunk by chunk, of each row (or column) */
} Packed;

static long up(long x, long to) { return (x + to - 1) / to * to; }
static long count(long x, long of) { return (x + of - 1) / of; }
static void *room(long bytes) { return aligned_alloc(64, up(bytes + 64, 64)); }
static long least(long a, long b) { return a < b ? a : b; }

typedef struct {
    long pairs, N;     /* half the numbers that are summed; columns of C */
    long height, per;  /* rows of C come in groups of `height`, which are `per` blocks of A */
    Packed A, B;
    float *C;
    long ldc;
    const float *bias; /* (N) or NULL */
    int add;           /* to the old C */
    int back;          /* panels from the last to the first: what was read last is still in the cache */
} Product;

/* A tile at the edge of C, by way of a whole one. */
static void edge_tile(long rows, long columns, Terms terms, const float *from, long ld, float *to, long ldc) {
    float tile[ROWS * COLUMNS] __attribute__((aligned(64))) = {0};
    for (long r = 0; r < rows; r++) memcpy(tile + r * COLUMNS, from + r * ld, columns * 4);
    add_tile(terms, tile, COLUMNS, tile, COLUMNS);
    for (long r = 0; r < rows; r++) memcpy(to + r * ldc, tile + r * COLUMNS, columns * 4);
}

/* What a chunk adds to a tile, a block by a panel. The first of several takes it from C, the last puts it there; between them it
   is in `kept`. */
static void chunk_of_tile(const Product *p, long block, long panel, long chunk, int first, int last, float *kept, const int32_t *next) {
    static const float zeros[COLUMNS];
    long chunks = count(p->pairs, CHUNK / 2), k = chunk * (CHUNK / 2), n = panel * COLUMNS, place = block % p->per * ROWS;
    long rows = least(ROWS, p->height - place), columns = least(COLUMNS, p->N - n), more = chunk || p->add;
    float *C = p->C + (block / p->per * p->height + place) * p->ldc + n, *to = last ? C : kept;
    const float *from = !first ? kept : more ? C : p->bias ? p->bias + n : zeros;
    long ld = !first ? COLUMNS : more ? p->ldc : 0, ldc = last ? p->ldc : COLUMNS;
    Terms terms = {least(p->pairs - k, CHUNK / 2), p->A.at + (block * p->pairs + k) * ROWS, p->B.at + (panel * p->pairs + k) * COLUMNS,
                   p->A.scale + (block * chunks + chunk) * ROWS, p->B.scale + (panel * chunks + chunk) * COLUMNS, next};
    if (rows == ROWS && columns == COLUMNS) add_tile(terms, from, ld, to, ldc);
    else edge_tile(rows, columns, terms, from, ld, to, ldc);
}

/* Chunks c0 to c1 of a panel and of the blocks b0 to b1; each chunk of the panel stays in the first cache for all of them. */
static void strip(const Product *p, long b0, long b1, long panel, long c0, long c1, long next) {
    float kept[GROUP * ROWS * COLUMNS] __attribute__((aligned(64)));
    for (long c = c0; c < c1; c++) {
        const int32_t *then = c + 1 < c1 ? p->B.at + (panel * p->pairs + (c + 1) * (CHUNK / 2)) * COLUMNS
                              : next < 0 ? NULL
                                         : p->B.at + (next * p->pairs + c0 * (CHUNK / 2)) * COLUMNS;
        for (long b = b0; b < b1; b++)
            chunk_of_tile(p, b, panel, c, c == c0, c + 1 == c1, kept + (b - b0) * ROWS * COLUMNS, b == b0 ? then : NULL);
    }
}

/* C = A·B, + bias or + C, for some blocks of rows and some panels of columns. */
static void multiply(const Product *p, long block0, long block1, long panel0, long panel1) {
    long chunks = count(p->pairs, CHUNK / 2), by = p->back ? -1 : 1, group = p->pairs * p->N * 4 <= FITS ? FEW : GROUP;
    for (long c = 0; c < chunks; c += DEPTH)
        for (long g = block0; g < block1; g += group)
            for (long n = panel0; n < panel1; n++) {
                long panel = p->back ? panel0 + panel1 - 1 - n : n;
                strip(p, g, least(g + group, block1), panel, c, least(c + DEPTH, chunks), n + 1 < panel1 ? panel + by : -1);
            }
}

/* Threads that do the same work on shares of it: OpenMP's, which are torch's. Without it there is one. */

typedef struct {
    int id, threads;
} Member;

typedef void Work(void *job, Member me);

static long share(long n, Member me, int next) { return n * (me.id + next) / me.threads; }

/* Go on when all have come here. */
static void meet(void) {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

/* Do the work with up to so many threads. */
static void together(Work *work, void *job, long threads) {
#ifdef _OPENMP
#pragma omp parallel num_threads((int)threads)
    work(job, (Member){omp_get_thread_num(), omp_get_num_threads()});
#else
    (void)threads;
    work(job, (Member){0, 1});
#endif
}
