/* The softmax over all words, forward and backward, without an (N, V) tensor of float32.

   The scores are made twice, which costs less than writing and reading them: once for log Z, once for the probabilities, which
   are kept in bf16, by context and by word. Each row of W is read once from memory and packed for both directions. */

#define WORDS 32 /* words of a panel */

/* One panel of scores (N, 32): c·Wᵀ + b of 32 words; what lies behind the last word is -inf. */
static void panel_scores(long N, long kt, const bf16 *a, long width, const bf16 *panel, const float *bias, long words, float *m) {
    float b[WORDS] __attribute__((aligned(64)));
    for (long j = 0; j < WORDS; j++) b[j] = j < words ? bias[j] : -1e30f;
    product(N, WORDS, kt, a, width, panel, m, WORDS, b, 0);
}

/* log Z (N). Kept for the gradient: P (N, up(V, 32)) by context, Pt (up(V, 32), up(N, 32)) by word, wn: W packed for P·W. */
int amx_softmax(long N, long V, long d, const float *c, const float *W, const float *bias, float *log_z, bf16 *P, bf16 *Pt, bf16 *wn) {
    long width = up(d, 32), kt = width / 32, Vp = up(V, 32), Np = up(N, 32), panel = width * WORDS;
    bf16 *a = room(Np * width * 2), *wt = room(Vp * width * 2), *tiles = room(panel * 2 + 64);
    float *m = room(Np * WORDS * 4), *most = room(N * 64), *sum = room(N * 64);
    int ok = a && wt && tiles && m && most && sum;
    if (ok) {
        rows_of(c, d, N, d, a, width);
        for (long i = 0; i < 16 * N; i++) most[i] = -1e30f, sum[i] = 0;
        for (long v = 0; v < V; v += WORDS) {
            long words = V - v < WORDS ? V - v : WORDS;
            panels_of_transposed(W + v * d, d, d, words, wt + v * width);
            panels_of(W + v * d, d, words, d, tiles); /* a tile of each panel of d: put where the whole matrix has them */
            for (long j = 0; j < kt; j++) memcpy(wn + j * Vp * 32 + v * 32, tiles + j * 1024, 2048);
            panel_scores(N, kt, a, width, wt + v * width, bias + v, words, m);
            for (long i = 0; i < N; i++) {
                __m512 x = _mm512_load_ps(m + i * WORDS), y = _mm512_load_ps(m + i * WORDS + 16), old = _mm512_load_ps(most + 16 * i);
                __m512 now = _mm512_max_ps(old, _mm512_max_ps(x, y));
                __m512 s = _mm512_mul_ps(_mm512_load_ps(sum + 16 * i), exponential(_mm512_sub_ps(old, now)));
                s = _mm512_add_ps(s, _mm512_add_ps(exponential(_mm512_sub_ps(x, now)), exponential(_mm512_sub_ps(y, now))));
                _mm512_store_ps(most + 16 * i, now);
                _mm512_store_ps(sum + 16 * i, s);
            }
        }
        for (long i = 0; i < N; i++) {
            __m512 lanes = _mm512_load_ps(most + 16 * i);
            float top = _mm512_reduce_max_ps(lanes);
            __m512 s = _mm512_mul_ps(_mm512_load_ps(sum + 16 * i), exponential(_mm512_sub_ps(lanes, _mm512_set1_ps(top))));
            log_z[i] = top + logf(_mm512_reduce_add_ps(s));
        }
        for (long v = 0; v < V; v += WORDS) {
            long words = V - v < WORDS ? V - v : WORDS;
            panel_scores(N, kt, a, width, wt + v * width, bias + v, words, m);
            for (long i = 0; i < N; i++) {
                __m512 z = _mm512_set1_ps(log_z[i]);
                __m512 x = exponential(_mm512_sub_ps(_mm512_load_ps(m + i * WORDS), z));
                __m512 y = exponential(_mm512_sub_ps(_mm512_load_ps(m + i * WORDS + 16), z));
                _mm512_storeu_si512(P + i * Vp + v, (__m512i)_mm512_cvtne2ps_pbh(y, x));
            }
            for (long i = 0; i < Np; i += 32)
                for (long j = 0; j < WORDS; j++)
                    for (long r = i; r < i + 32; r++) Pt[(v + j) * Np + r] = r < N ? P[r * Vp + v + j] : 0;
        }
    }
    free(a), free(wt), free(tiles), free(m), free(most), free(sum);
    return ok;
}

/* From s (N), the gradient of log Z, and scaled (N, d) = diag(s) c:  dc = P·W (to be multiplied by s), dW = Pᵀ·scaled, db = Pᵀ·s. */
int amx_softmax_gradient(long N, long V, long d, const float *scaled, const float *s, const bf16 *P, const bf16 *Pt, const bf16 *wn,
                         float *dc, float *dW, float *db) {
    long Vp = up(V, 32), Np = up(N, 32);
    bf16 *p = room(Np * up(d, 32) * 2 + 64);
    if (!p) return 0;
    product(N, d, Vp / 32, P, Vp, wn, dc, d, NULL, 0);
    panels_of(scaled, d, N, d, p);
    product(V, d, Np / 32, Pt, Np, p, dW, d, NULL, 0);
    for (long v = 0; v < V; v++) {
        __m512 total = _mm512_setzero_ps();
        for (long i = 0; i < N; i += 16) {
            __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(Pt + v * Np + i)));
            total = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)), _mm512_maskz_loadu_ps(first(N - i), s + i), total);
        }
        db[v] = _mm512_reduce_add_ps(total);
    }
    free(p);
    return 1;
}
