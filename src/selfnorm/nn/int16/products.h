/* Products in fixed point for training on AVX2 or AVX-512: float32 in, float32 out.

   Each CHUNK of a row of A and each column of B is rounded to whole numbers within ±LIMIT times a scale of its own, its largest
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

#ifdef __AVX512VNNI__
#include "avx512.h"
#else
#include "avx2.h"
#endif

#define LIMIT 4095
#define CHUNK 128
#define DEPTH 6      /* chunks taken at a time, so that a panel stays in the first cache */

typedef struct {
    int32_t *at;  /* pairs */
    float *scale; /* of A: block by block, chunk by chunk, of each row; of B: of each column */
} Packed;

static long up(long x, long to) { return (x + to - 1) / to * to; }
static long count(long x, long of) { return (x + of - 1) / of; }
static void *room(long bytes) { return aligned_alloc(64, up(bytes + 64, 64)); }
static long least(long a, long b) { return a < b ? a : b; }

/* The sums of a block and a panel, in the scale of the panel. */
static void sums(long pairs, const int32_t *a, const float *scale, const int32_t *b, float *sum) {
    for (long k = 0; k < pairs; k += CHUNK / 2, scale += ROWS, a += CHUNK / 2 * ROWS, b += CHUNK / 2 * COLUMNS) {
        Wholes s[2 * ROWS];
        add_up(least(pairs - k, CHUNK / 2), a, b, s);
        for (int r = 0; r < 2 * ROWS; r++) {
            Reals now = to_reals(s[r]) * all(scale[r / 2]);
            if (k) now += load(sum + LANES * r, LANES);
            save(sum + LANES * r, LANES, now);
        }
    }
}

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

/* Sums to C, in their scale; `more` are added to what is there. */
static void store(const Product *p, long block, long panel, const float *sum, int more) {
    long row = block / p->per * p->height + block % p->per * ROWS, rows = least(ROWS, p->height - block % p->per * ROWS);
    long n = panel * COLUMNS, columns = least(COLUMNS, p->N - n);
    for (long r = 0; r < rows; r++) {
        float *to = p->C + (row + r) * p->ldc + n;
        const float *b = p->B.scale + n, *from = sum + r * COLUMNS;
        const float *start = more ? to : p->bias ? p->bias + n : NULL;
        if (columns == COLUMNS)
            for (int j = 0; j < COLUMNS; j += LANES) {
                Reals now = load(from + j, LANES) * load(b + j, LANES);
                if (start) now += load(start + j, LANES);
                save(to + j, LANES, now);
            }
        else
            for (long j = 0; j < columns; j++) to[j] = from[j] * b[j] + (start ? start[j] : 0);
    }
}

/* C = A·B, + bias or + C, for some blocks of rows and some panels of columns. */
static void multiply(const Product *p, long block0, long block1, long panel0, long panel1) {
    float sum[ROWS * COLUMNS] __attribute__((aligned(64)));
    long chunks = count(p->pairs, CHUNK / 2), group = GROUP / (least(p->pairs, DEPTH * CHUNK / 2) * ROWS * 4) + 1;
    for (long chunk = 0; chunk < chunks; chunk += DEPTH) {
        long k = chunk * CHUNK / 2, pairs = least(p->pairs - k, DEPTH * CHUNK / 2);
        for (long g = block0; g < block1; g += group)
            for (long n = panel0; n < panel1; n++)
                for (long block = g; block < least(g + group, block1); block++) {
                    long panel = p->back ? panel0 + panel1 - 1 - n : n;
                    const int32_t *a = p->A.at + (block * p->pairs + k) * ROWS, *b = p->B.at + (panel * p->pairs + k) * COLUMNS;
                    sums(pairs, a, p->A.scale + (block * chunks + chunk) * ROWS, b, sum);
                    store(p, block, panel, sum, p->add || chunk);
                }
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
