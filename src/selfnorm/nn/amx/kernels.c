/* Products in bf16 on the matrix tiles (AMX) of a CPU, for training: float32 in, float32 out, one thread.

   Operands are rounded to bf16 and packed; sums are float32. A tile of A holds 16 rows of 32 numbers. A tile of B holds 16
   columns: its row r has the numbers 2r and 2r + 1 of each column side by side, as the instruction wants them. A panel of B is
   32 columns. An LSTM layer is here as a whole, because at 20 streams its recurrent products are bound by reading the weights. */

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint16_t bf16;

static long up(long x, long to) { return (x + to - 1) / to * to; }
static void *room(long bytes) { return aligned_alloc(64, up(bytes, 64)); }

/* Ask the kernel for the tiles; 1 if this process may use them. */
int amx_enable(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

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

/* ---- the general product -------------------------------------------------------------------------------------------- */

/* C (M, N) = A·B (+ bias). A is (M, K), or (K, M) if at; B is (K, N), or (N, K) if bt; all row by row. 0: no memory. */
int amx_product(long M, long N, long K, const float *A, long lda, int at, const float *B, long ldb, int bt, const float *bias, float *C, long ldc) {
    long width = up(K, 32), deep = up(M, 32);
    bf16 *a = room(deep * width * 2), *b = room(up(N, 32) * width * 2 + 16384), *rows = at ? room(K * deep * 2) : NULL;
    int ok = a && b && (rows || !at);
    if (ok) {
        if (at) {
            rows_of(A, lda, K, M, rows, deep);
            transpose(rows, deep, K, M, a, width);
        } else
            rows_of(A, lda, M, K, a, width);
        if (bt)
            panels_of_transposed(B, ldb, K, N, b);
        else
            panels_of(B, ldb, K, N, b);
        product(M, N, width / 32, a, width, b, C, ldc, bias, 0);
    }
    free(a), free(b), free(rows);
    return ok;
}

/* ---- an LSTM layer -------------------------------------------------------------------------------------------------- */

static __m512 exponential(__m512 x) {
    x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(80)), _mm512_set1_ps(-80));
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

static __m512 sigmoid(__m512 x) {
    __m512 one = _mm512_set1_ps(1);
    return _mm512_div_ps(one, _mm512_add_ps(one, exponential(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

static __m512 hyperbolic(__m512 x) { /* tanh x = 2 σ(2x) - 1 */
    return _mm512_fmsub_ps(_mm512_set1_ps(2), sigmoid(_mm512_add_ps(x, x)), _mm512_set1_ps(1));
}

/* y (T·B, d) from x (T·B, d). gates (T·B, ld) and cells (T·B, d) are kept for the gradient. Weights (4d, d): i, f, g, o. */
int amx_lstm(long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *bias, const float *h0,
             const float *c0, float *y, float *gates, long ld, float *cells) {
    long width = up(d, 32), kt = width / 32;
    bf16 *a = room(up(T * B, 32) * width * 2), *h = room(up(B, 32) * width * 2);
    bf16 *wx = room(up(4 * d, 32) * width * 2 + 16384), *wh = room(up(4 * d, 32) * width * 2 + 16384);
    int ok = a && h && wx && wh;
    if (ok) {
        rows_of(x, d, T * B, d, a, width);
        rows_of(h0, d, B, d, h, width);
        panels_of_transposed(w_x, d, d, 4 * d, wx);
        panels_of_transposed(w_h, d, d, 4 * d, wh);
        product(T * B, 4 * d, kt, a, width, wx, gates, ld, bias, 0);
        for (long t = 0; t < T; t++) {
            float *now = gates + t * B * ld, *c = cells + t * B * d, *out = y + t * B * d;
            const float *before = t ? c - B * d : c0;
            product(B, 4 * d, kt, h, width, wh, now, ld, NULL, 1);
            for (long b = 0; b < B; b++)
                for (long j = 0; j < d; j += 16) {
                    __mmask16 m = first(d - j);
                    float *g = now + b * ld + j;
                    __m512 in = sigmoid(_mm512_maskz_loadu_ps(m, g)), keep = sigmoid(_mm512_maskz_loadu_ps(m, g + d));
                    __m512 new = hyperbolic(_mm512_maskz_loadu_ps(m, g + 2 * d)), open = sigmoid(_mm512_maskz_loadu_ps(m, g + 3 * d));
                    __m512 cell = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(m, before + b * d + j), _mm512_mul_ps(in, new));
                    _mm512_mask_storeu_ps(g, m, in);
                    _mm512_mask_storeu_ps(g + d, m, keep);
                    _mm512_mask_storeu_ps(g + 2 * d, m, new);
                    _mm512_mask_storeu_ps(g + 3 * d, m, open);
                    _mm512_mask_storeu_ps(c + b * d + j, m, cell);
                    _mm512_mask_storeu_ps(out + b * d + j, m, _mm512_mul_ps(open, hyperbolic(cell)));
                }
            rows_of(out, d, B, d, h, width);
        }
    }
    free(a), free(h), free(wx), free(wh);
    return ok;
}

/* Gradients of a layer from dy: dx, d_wx, d_wh (4d, d), d_bias (4d). The state before the window is taken as given. */
int amx_lstm_gradient(long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *h0, const float *c0,
                      const float *y, const float *gates, long ld, const float *cells, const float *dy, float *dx, float *d_wx,
                      float *d_wh, float *d_bias) {
    long N = T * B, wide = up(4 * d, 32), deep = up(N, 32);
    bf16 *dg = room(deep * wide * 2), *turned = room(wide * deep * 2), *p = room(deep * up(d, 32) * 2 + 16384);
    bf16 *wx = room(wide * up(d, 32) * 2 + 16384), *wh = room(wide * up(d, 32) * 2 + 16384);
    float *dh = room(B * d * 4), *dc = room(B * d * 4), *row = room(wide * 4), *hs = room(N * d * 4);
    int ok = dg && turned && p && wx && wh && dh && dc && row && hs;
    if (ok) {
        panels_of(w_h, d, 4 * d, d, wh);
        panels_of(w_x, d, 4 * d, d, wx);
        memset(dh, 0, B * d * 4), memset(dc, 0, B * d * 4), memset(row, 0, wide * 4), memset(d_bias, 0, 4 * d * 4);
        for (long t = T - 1; t >= 0; t--) {
            const float *before = t ? cells + (t - 1) * B * d : c0;
            for (long b = 0; b < B; b++) {
                const float *g = gates + (t * B + b) * ld, *cell = cells + (t * B + b) * d, *up_y = dy + (t * B + b) * d;
                for (long j = 0; j < d; j += 16) {
                    __mmask16 m = first(d - j);
                    __m512 one = _mm512_set1_ps(1), in = _mm512_maskz_loadu_ps(m, g + j), keep = _mm512_maskz_loadu_ps(m, g + d + j);
                    __m512 new = _mm512_maskz_loadu_ps(m, g + 2 * d + j), open = _mm512_maskz_loadu_ps(m, g + 3 * d + j);
                    __m512 tc = hyperbolic(_mm512_maskz_loadu_ps(m, cell + j));
                    __m512 gh = _mm512_add_ps(_mm512_maskz_loadu_ps(m, up_y + j), _mm512_maskz_loadu_ps(m, dh + b * d + j));
                    __m512 gc = _mm512_fmadd_ps(_mm512_mul_ps(gh, open), _mm512_fnmadd_ps(tc, tc, one), _mm512_maskz_loadu_ps(m, dc + b * d + j));
                    __m512 d_in = _mm512_mul_ps(_mm512_mul_ps(gc, new), _mm512_mul_ps(in, _mm512_sub_ps(one, in)));
                    __m512 d_keep = _mm512_mul_ps(_mm512_mul_ps(gc, _mm512_maskz_loadu_ps(m, before + b * d + j)), _mm512_mul_ps(keep, _mm512_sub_ps(one, keep)));
                    __m512 d_new = _mm512_mul_ps(_mm512_mul_ps(gc, in), _mm512_fnmadd_ps(new, new, one));
                    __m512 d_open = _mm512_mul_ps(_mm512_mul_ps(gh, tc), _mm512_mul_ps(open, _mm512_sub_ps(one, open)));
                    __m512 parts[4] = {d_in, d_keep, d_new, d_open};
                    for (int q = 0; q < 4; q++) {
                        _mm512_mask_storeu_ps(row + q * d + j, m, parts[q]);
                        float *sum = d_bias + q * d + j;
                        _mm512_mask_storeu_ps(sum, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, sum), parts[q]));
                    }
                    _mm512_mask_storeu_ps(dc + b * d + j, m, _mm512_mul_ps(gc, keep));
                }
                rows_of(row, wide, 1, wide, dg + (t * B + b) * wide, wide);
            }
            if (t) product(B, d, wide / 32, dg + t * B * wide, wide, wh, dh, d, NULL, 0);
        }
        product(N, d, wide / 32, dg, wide, wx, dx, d, NULL, 0);
        transpose(dg, wide, N, 4 * d, turned, deep);
        panels_of(x, d, N, d, p);
        product(4 * d, d, deep / 32, turned, deep, p, d_wx, d, NULL, 0);
        memcpy(hs, h0, B * d * 4), memcpy(hs + B * d, y, (N - B) * d * 4);
        panels_of(hs, d, N, d, p);
        product(4 * d, d, deep / 32, turned, deep, p, d_wh, d, NULL, 0);
    }
    free(dg), free(turned), free(p), free(wx), free(wh), free(dh), free(dc), free(row), free(hs);
    return ok;
}
