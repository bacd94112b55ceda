/* Products in bf16 on the matrix tiles (AMX) of a CPU, for training: float32 in, float32 out, one thread.

   Operands are rounded to bf16 and packed; sums are float32. A tile of A holds 16 rows of 32 numbers. A tile of B holds 16
   columns: its row r has the numbers 2r and 2r + 1 of each column side by side, as the instruction wants them. A panel of B is
   32 columns. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint16_t bf16;

static long up(long x, long to) { return (x + to - 1) / to * to; }
static void *room(long bytes) { return aligned_alloc(64, up(bytes, 64)); }

#define DEPTH 21 /* tiles of a panel taken at a time: 43 KB, about the first cache */

typedef struct {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} Tiles;

/* Tiles 0-3 are a block of C, 4 and 5 of A, 6 and 7 of B; the upper blocks have `top` rows, the lower ones `low`. */
static void configure(int top, int low) {
    Tiles t;
    memset(&t, 0, sizeof t);
    t.palette = 1;
    for (int i = 0; i < 8; i++) t.bytes[i] = 64, t.rows[i] = 16;
    t.rows[0] = t.rows[1] = t.rows[4] = top;
    t.rows[2] = t.rows[3] = t.rows[5] = low ? low : top;
    __asm__ volatile("" : : "r"(&t) : "memory"); /* gcc takes the next line to read 8 bytes only */
    _tile_loadconfig(&t);
}

/* A block of C (up to 32 x 32) = start + A·B. `from` with stride 0 is a bias, with ldc the old C, NULL zero.
   Rows of A are lda numbers apart, its tiles of a row `next` numbers. */
static void block(const bf16 *A, long lda, long next, const bf16 *B, long kt, float *C, long ldc, const float *from, long step, int low) {
    if (from) {
        _tile_loadd(0, from, step * 4);
        _tile_loadd(1, from + 16, step * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    if (!low) {
        for (long k = 0; k < kt; k++, A += next, B += 1024) {
            _tile_loadd(4, A, lda * 2);
            _tile_loadd(6, B, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, B + 512, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
    } else {
        if (from) {
            _tile_loadd(2, from + 16 * step, step * 4);
            _tile_loadd(3, from + 16 * step + 16, step * 4);
        } else {
            _tile_zero(2);
            _tile_zero(3);
        }
        _tile_loadd(4, A, lda * 2);
        _tile_loadd(6, B, 64);
        _tile_loadd(7, B + 512, 64);
        _tile_loadd(5, A + 16 * lda, lda * 2);
        for (long k = 1; k < kt; k++) { /* each tile is loaded again as soon as its last product has been started */
            A += next, B += 1024;
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(4, A, lda * 2);
            _tile_dpbf16ps(2, 5, 6);
            _tile_loadd(6, B, 64);
            _tile_dpbf16ps(3, 5, 7);
            _tile_loadd(7, B + 512, 64);
            _tile_loadd(5, A + 16 * lda, lda * 2);
        }
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_stored(2, C + 16 * ldc, ldc * 4);
        _tile_stored(3, C + 16 * ldc + 16, ldc * 4);
    }
    _tile_stored(0, C, ldc * 4);
    _tile_stored(1, C + 16, ldc * 4);
}

/* The same where the last panel has fewer than 32 columns. */
static void edge(const bf16 *A, long lda, long next, const bf16 *B, long kt, float *C, long ldc, const float *bias, int add, int rows, int cols, int low) {
    float part[32 * 32] __attribute__((aligned(64))), start[32] __attribute__((aligned(64)));
    memset(part, 0, sizeof part);
    memset(start, 0, sizeof start);
    if (bias) memcpy(start, bias, cols * 4);
    if (add)
        for (int i = 0; i < rows; i++) memcpy(part + 32 * i, C + i * ldc, cols * 4);
    __asm__ volatile("" : : : "memory"); /* gcc does not know that tiles are loaded from memory */
    block(A, lda, next, B, kt, part, 32, add ? part : bias ? start : NULL, add ? 32 : 0, low);
    for (int i = 0; i < rows; i++) memcpy(C + i * ldc, part + 32 * i, cols * 4);
}

typedef struct {
    long kt, lda, next, ldc, N;
    const bf16 *A, *B;
    float *C;
    const float *bias;
    int add, rows, low;
} Product;

/* The block of C at row i and column n, from `depth` tiles of A and B starting with the k-th. */
static void part(const Product *p, long i, long n, long k, long depth) {
    const bf16 *a = p->A + i * p->lda + p->next * k, *panel = p->B + n * p->kt * 32 + k * 1024;
    float *at = p->C + i * p->ldc + n;
    const float *bias = p->bias ? p->bias + n : NULL;
    int more = p->add || k;
    if (p->N - n < 32)
        edge(a, p->lda, p->next, panel, depth, at, p->ldc, bias, more, p->rows, (int)(p->N - n), p->low);
    else
        block(a, p->lda, p->next, panel, depth, at, p->ldc, more ? at : bias, more ? p->ldc : 0, p->low);
}

/* Ask for the lines of a block of C before it is written: the rows are far apart, and each store would wait for memory. */
static void ask(const float *C, long ldc, long rows) {
    for (long i = 0; i < rows; i++) {
        __builtin_prefetch(C + i * ldc, 1);
        __builtin_prefetch(C + i * ldc + 16, 1);
    }
}

/* C (M, N) = A·B, + bias (N) or + C. A: rows lda apart, their tiles `next` apart; B in panels, kt tiles deep.
   Whichever operand is smaller stays in the second cache, the other passes by once; from its end if `back`. */
static void product_of(long M, long N, long kt, const bf16 *A, long lda, long next, const bf16 *B, float *C, long ldc, const float *bias, int add, int back) {
    long whole = M / 32 * 32;
    for (int pass = 0; pass < 2; pass++) {
        long from = pass ? whole : 0, to = pass ? M : whole;
        if (from == to) continue;
        int rows = pass ? (int)(M - whole) : 32, top = rows < 16 ? rows : 16;
        Product p = {kt, lda, next, ldc, N, A, B, C, bias, add, rows, rows - top};
        configure(top, rows - top);
        for (long k = 0; k < kt; k += DEPTH) {
            long depth = kt - k < DEPTH ? kt - k : DEPTH;
            if (M <= N)
                for (long n = 0; n < N; n += 32)
                    for (long i = from; i < to; i += 32) part(&p, i, back ? (N - 1) / 32 * 32 - n : n, k, depth);
            else
                for (long i = from; i < to; i += 32)
                    for (long n = 0; n < N; n += 32) {
                        if (k == 0 && i + 32 < to) ask(C + (i + 32) * ldc + n, ldc, 32);
                        part(&p, i, n, k, depth);
                    }
        }
    }
    _tile_release();
}

static void product(long M, long N, long kt, const bf16 *A, long lda, const bf16 *B, float *C, long ldc, const float *bias, int add) {
    product_of(M, N, kt, A, lda, 32, B, C, ldc, bias, add, 0);
}
