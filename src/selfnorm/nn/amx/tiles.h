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

/* ---- tiles ---------------------------------------------------------------------------------------------------------- */

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
    _tile_loadconfig(&t);
}

/* A block of C (up to 32 x 32) = start + A·B. `from` with stride 0 is a bias, with ldc the old C, NULL zero. */
static void block(const bf16 *A, long lda, const bf16 *B, long kt, float *C, long ldc, const float *from, long step, int low) {
    if (from) {
        _tile_loadd(0, from, step * 4);
        _tile_loadd(1, from + 16, step * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    if (!low) {
        for (long k = 0; k < kt; k++, B += 1024) {
            _tile_loadd(4, A + 32 * k, lda * 2);
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
        for (long k = 0; k < kt; k++, B += 1024) {
            _tile_loadd(4, A + 32 * k, lda * 2);
            _tile_loadd(6, B, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(5, A + 16 * lda + 32 * k, lda * 2);
            _tile_dpbf16ps(2, 5, 6);
            _tile_loadd(7, B + 512, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(2, C + 16 * ldc, ldc * 4);
        _tile_stored(3, C + 16 * ldc + 16, ldc * 4);
    }
    _tile_stored(0, C, ldc * 4);
    _tile_stored(1, C + 16, ldc * 4);
}

/* The same where the last panel has fewer than 32 columns. */
static void edge(const bf16 *A, long lda, const bf16 *B, long kt, float *C, long ldc, const float *bias, int add, int rows, int cols, int low) {
    float part[32 * 32] __attribute__((aligned(64))), start[32] __attribute__((aligned(64)));
    memset(part, 0, sizeof part);
    memset(start, 0, sizeof start);
    if (bias) memcpy(start, bias, cols * 4);
    if (add)
        for (int i = 0; i < rows; i++) memcpy(part + 32 * i, C + i * ldc, cols * 4);
    block(A, lda, B, kt, part, 32, add ? part : bias ? start : NULL, add ? 32 : 0, low);
    for (int i = 0; i < rows; i++) memcpy(C + i * ldc, part + 32 * i, cols * 4);
}

typedef struct {
    long kt, lda, ldc, N;
    const bf16 *A, *B;
    float *C;
    const float *bias;
    int add, rows, low;
} Product;

/* The block of C at row i and column n, from `depth` tiles of A and B starting with the k-th. */
static void part(const Product *p, long i, long n, long k, long depth) {
    const bf16 *a = p->A + i * p->lda + 32 * k, *panel = p->B + n * p->kt * 32 + k * 1024;
    float *at = p->C + i * p->ldc + n;
    const float *bias = p->bias ? p->bias + n : NULL;
    int more = p->add || k;
    if (p->N - n < 32)
        edge(a, p->lda, panel, depth, at, p->ldc, bias, more, p->rows, (int)(p->N - n), p->low);
    else
        block(a, p->lda, panel, depth, at, p->ldc, more ? at : bias, more ? p->ldc : 0, p->low);
}

/* C (M, N) = A·B, + bias (N) or + C; A packed with rows of lda numbers, B in panels, kt tiles deep.
   Whichever operand is smaller stays in the second cache, the other passes by once. */
static void product(long M, long N, long kt, const bf16 *A, long lda, const bf16 *B, float *C, long ldc, const float *bias, int add) {
    long whole = M / 32 * 32;
    for (int pass = 0; pass < 2; pass++) {
        long from = pass ? whole : 0, to = pass ? M : whole;
        if (from == to) continue;
        int rows = pass ? (int)(M - whole) : 32, top = rows < 16 ? rows : 16;
        Product p = {kt, lda, ldc, N, A, B, C, bias, add, rows, rows - top};
        configure(top, rows - top);
        for (long k = 0; k < kt; k += DEPTH) {
            long depth = kt - k < DEPTH ? kt - k : DEPTH;
            if (M <= N)
                for (long n = 0; n < N; n += 32)
                    for (long i = from; i < to; i += 32) part(&p, i, n, k, depth);
            else
                for (long i = from; i < to; i += 32)
                    for (long n = 0; n < N; n += 32) part(&p, i, n, k, depth);
        }
    }
    _tile_release();
}

/* ---- packing -------------------------------------------------------------------------------------------------------- */

static __mmask16 first(long n) { return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

static __m512i thirty_two(const float *x, long left) {
    __m512 low = _mm512_maskz_loadu_ps(first(left), x), high = _mm512_maskz_loadu_ps(first(left - 16), x + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Rows (M, K) to bf16 rows of `width`, zeros behind. */
static void rows_of(const float *x, long ldx, long M, long K, bf16 *to, long width) {
    for (long i = 0; i < M; i++)
        for (long k = 0; k < width; k += 32) _mm512_storeu_si512(to + i * width + k, thirty_two(x + i * ldx + k, K - k));
}

/* B (K, N) in panels: numbers 2r and 2r + 1 of a column side by side. */
static void panels_of(const float *x, long ldx, long K, long N, bf16 *to) {
    long depth = up(K, 32);
    for (long n = 0; n < N; n += 32)
        for (long k = 0; k < depth; k += 32)
            for (int half = 0; half < 2; half++)
                for (int r = 0; r < 16; r++, to += 32) {
                    long at = k + 2 * r, column = n + 16 * half;
                    __mmask16 m = first(N - column);
                    __m512 a = at < K ? _mm512_maskz_loadu_ps(m, x + at * ldx + column) : _mm512_setzero_ps();
                    __m512 b = at + 1 < K ? _mm512_maskz_loadu_ps(m, x + (at + 1) * ldx + column) : _mm512_setzero_ps();
                    __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
                    __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
                    _mm512_store_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
                }
}

/* The same of a matrix that is stored the other way round: x (N, K), B = xᵀ. */
static void panels_of_transposed(const float *x, long ldx, long K, long N, bf16 *to) {
    long depth = up(K, 32);
    __m512i column = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(16));
    for (long n = 0; n < N; n += 32)
        for (long k = 0; k < depth; k += 32)
            for (int half = 0; half < 2; half++, to += 512) {
                uint32_t tile[256] __attribute__((aligned(64)));
                for (int r = 0; r < 16; r++) {
                    long row = n + 16 * half + r;
                    _mm512_store_si512(tile + 16 * r, row < N ? thirty_two(x + row * ldx + k, K - k) : _mm512_setzero_si512());
                }
                for (int r = 0; r < 16; r++) _mm512_store_si512(to + 32 * r, _mm512_i32gather_epi32(column, tile + r, 4));
            }
}

/* bf16 rows (M, N) to their transpose, rows of `width` numbers, zeros behind. */
static void transpose(const bf16 *x, long ldx, long M, long N, bf16 *to, long width) {
    for (long n = 0; n < N; n += 32)
        for (long i = 0; i < width; i += 32)
            for (long a = n; a < n + 32 && a < N; a++)
                for (long b = i; b < i + 32; b++) to[a * width + b] = b < M ? x[b * ldx + a] : 0;
}

/* e^x for x within ±80; what is not a number stays so, because min and max return their second operand then. */
static __m512 exponential(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-80), _mm512_min_ps(_mm512_set1_ps(80), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, _mm512_add_ps(r, _mm512_set1_ps(1)));
    return _mm512_scalef_ps(p, n);
}
