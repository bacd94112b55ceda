/* The softmax over all words, forward and backward, without an (N, V) tensor of float32.

   The scores of 32 words at a time become e^(score - reference) in bf16, kept by context and by word; the reference of a context
   is its best score among the first words. Should a score exceed it by more than FAR, all is made again from the best score of
   all. Each row of W is read once from memory and packed for both directions. */

#define WORDS 32 /* words of a panel */
#define FAR 60 /* e^FAR times a million words is still a float32 */

typedef struct {
    long N, V, d, width, Vp, Np;
    const bf16 *a; /* contexts */
    const float *W, *bias, *reference;
    bf16 *wt, *tiles, *P, *Pt, *wn; /* one panel of W, packed for c·Wᵀ and for P·W; what is kept of all words */
    float *m, *most, *sum;          /* scores of a panel; best score and sum of exponentials in 16 lanes a context */
} Softmax;

/* Scores (N, 32) of the words from v on: c·Wᵀ + b; what lies behind the last word is -inf. */
static void panel_scores(const Softmax *x, long v) {
    float b[WORDS] __attribute__((aligned(64)));
    long words = x->V - v < WORDS ? x->V - v : WORDS;
    for (long j = 0; j < WORDS; j++) b[j] = j < words ? x->bias[v + j] : -1e30f;
    panels_of_transposed(x->W + v * x->d, x->d, x->d, words, x->wt);
    product(x->N, WORDS, x->width / 32, x->a, x->width, x->wt, x->m, WORDS, b, 0);
}

/* The rows of W of the words from v on, packed for P·W: a tile for each panel of d, put where the whole matrix has it. */
static void keep_rows(const Softmax *x, long v) {
    panels_of(x->W + v * x->d, x->d, x->V - v < WORDS ? x->V - v : WORDS, x->d, x->tiles);
    for (long j = 0; j < x->width / 32; j++) memcpy(x->wn + j * x->Vp * 32 + v * 32, x->tiles + j * 1024, 2048);
}

/* e^(score - reference) of all words, in P and Pt. */
static void exponentials(const Softmax *x) {
    for (long i = 0; i < 16 * x->N; i++) x->most[i] = -1e30f, x->sum[i] = 0;
    for (long v = 0; v < x->V; v += WORDS) {
        bf16 *panel = x->P + v * x->Np;
        panel_scores(x, v);
        keep_rows(x, v);
        for (long i = 0; i < x->N; i++) {
            __m512 low = _mm512_load_ps(x->m + i * WORDS), high = _mm512_load_ps(x->m + i * WORDS + 16), from = _mm512_set1_ps(x->reference[i]);
            _mm512_store_ps(x->most + 16 * i, _mm512_max_ps(_mm512_max_ps(low, high), _mm512_load_ps(x->most + 16 * i)));
            low = exponential(_mm512_sub_ps(low, from)), high = exponential(_mm512_sub_ps(high, from));
            _mm512_store_ps(x->sum + 16 * i, _mm512_add_ps(_mm512_load_ps(x->sum + 16 * i), _mm512_add_ps(low, high)));
            _mm512_storeu_si512(panel + i * WORDS, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        transpose(panel, WORDS, x->N, WORDS, x->Pt + v * x->Np, x->Np);
    }
}

/* The best score of each context among the first words. */
static void first_reference(const Softmax *x, float *reference) {
    panel_scores(x, 0);
    for (long i = 0; i < x->N; i++)
        reference[i] = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_load_ps(x->m + i * WORDS), _mm512_load_ps(x->m + i * WORDS + 16)));
}

/* The best score of all where it is FAR above the reference; 1 if there is such a context. */
static int better_reference(const Softmax *x, float *reference) {
    int far = 0;
    for (long i = 0; i < x->N; i++) {
        float best = _mm512_reduce_max_ps(_mm512_load_ps(x->most + 16 * i));
        if (best > reference[i] + FAR) far = 1, reference[i] = best;
    }
    return far;
}

/* log Z (N). Kept for the gradient: P (words / 32, up(N, 32), 32) and Pt (up(V, 32), up(N, 32)), each to be multiplied by its
   context's factor (N); wn: W packed for P·W. */
int amx_softmax(long N, long V, long d, const float *c, const float *W, const float *bias, float *log_z, float *factor, bf16 *P,
                bf16 *Pt, bf16 *wn) {
    long width = up(d, 32), Np = up(N, 32);
    bf16 *a = room(Np * width * 2), *wt = room(width * 64), *tiles = room(width * 64);
    float *reference = room(N * 4), *m = room(Np * WORDS * 4), *most = room(N * 64), *sum = room(N * 64);
    int ok = a && wt && tiles && reference && m && most && sum;
    if (ok) {
        Softmax x = {N, V, d, width, up(V, 32), Np, a, W, bias, reference, wt, tiles, P, Pt, wn, m, most, sum};
        rows_of(c, d, N, d, a, width);
        first_reference(&x, reference);
        do
            exponentials(&x);
        while (better_reference(&x, reference));
        for (long i = 0; i < N; i++) {
            float total = _mm512_reduce_add_ps(_mm512_load_ps(sum + 16 * i));
            log_z[i] = reference[i] + logf(total), factor[i] = 1 / total;
        }
    }
    free(a), free(wt), free(tiles), free(reference), free(m), free(most), free(sum);
    return ok;
}

/* From s (N), the gradient of log Z times the factor, and scaled (N, d) = diag(s) c:
   dc = P·W (to be multiplied by s), dW = Pᵀ·scaled, db = Pᵀ·s. */
int amx_softmax_gradient(long N, long V, long d, const float *scaled, const float *s, const bf16 *P, const bf16 *Pt, const bf16 *wn,
                         float *dc, float *dW, float *db) {
    long Vp = up(V, 32), Np = up(N, 32);
    bf16 *p = room(Np * up(d, 32) * 2);
    if (!p) return 0;
    product_of(N, d, Vp / 32, P, WORDS, Np * WORDS, wn, dc, d, NULL, 0, 0);
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
