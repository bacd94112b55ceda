/* Matrices in float32 to whole numbers with scales, in blocks and panels. */

static const int32_t MASK[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

static __m256i first(long n) { return _mm256_loadu_si256((const __m256i *)(MASK + 8 - (n > 8 ? 8 : n < 0 ? 0 : n))); }
static __m256 load(const float *x, long left) { return left >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first(left)); }
static void save(float *to, long left, __m256 x) {
    if (left >= 8) _mm256_storeu_ps(to, x);
    else _mm256_maskstore_ps(to, first(left), x);
}

/* The size of numbers as whole numbers: they have the same order, and what is not finite is the largest. */
static __m256i sizes(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF)); }

/* From the largest size: the scale of the whole numbers, and what to multiply by to get them. Not a number if anything was. */
static float scale_of(int32_t most, float *by) {
    float largest;
    memcpy(&largest, &most, 4);
    int finite = most < 0x7F800000;
    *by = finite && largest > 1e-30f ? LIMIT / largest : 0;
    return finite ? largest / LIMIT : NAN;
}

static int32_t largest_of(__m256i most) {
    int32_t lane[8], top = 0;
    _mm256_storeu_si256((__m256i *)lane, most);
    for (int i = 0; i < 8; i++) top = lane[i] > top ? lane[i] : top;
    return top;
}

/* A row of K numbers to 16-bit numbers, zeros up to a multiple of 16; returns their scale. */
static float rounded(const float *x, long K, int16_t *to) {
    __m256i most = _mm256_setzero_si256();
    for (long k = 0; k < K; k += 8) most = _mm256_max_epi32(most, sizes(load(x + k, K - k)));
    float by, scale = scale_of(largest_of(most), &by);
    __m256 times = _mm256_set1_ps(by);
    for (long k = 0; k < K; k += 16) {
        __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + k, K - k), times));
        __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + k + 8, K - k - 8), times));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
        _mm256_storeu_si256((__m256i *)(to + k), both);
    }
    return scale;
}

/* `some` rows of x, K numbers of each, as one of `wide` rows; `line` has room for up(K, 16) numbers. */
static void from_rows(const float *x, long ldx, long some, long wide, long K, int32_t *to, float *scale, int16_t *line) {
    for (long r = 0; r < wide; r++) {
        if (r < some) scale[r] = rounded(x + r * ldx, K, line);
        else memset(line, 0, up(K, 16) * 2), scale[r] = 0;
        for (long k = 0; k < K; k += 2) memcpy(to + k / 2 * wide + r, line + k, 4);
    }
}

/* Rows of x as a panel of B. */
static void panel_of_rows(const float *x, long ldx, long some, long K, int32_t *to, float *scale, int16_t *line) {
    from_rows(x, ldx, some, COLUMNS, K, to, scale, line);
}

/* Rows of x as a block of A, which is the i-th of `to`. */
static void block_of_rows(const float *x, long ldx, long some, long K, Packed to, long i, int16_t *line) {
    int32_t *at = to.at + i * ROWS * count(K, 2);
    float *scale = to.scale + i * ROWS * count(K, CHUNK);
    for (long k = 0; k < K; k += CHUNK, scale += ROWS)
        from_rows(x + k, ldx, some, ROWS, least(CHUNK, K - k), at + k / 2 * ROWS, scale, line);
}

/* The pairs of 8 columns in two rows. */
static __m256i paired(__m256 even, __m256 odd, __m256 by) {
    __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(even, by)), b = _mm256_cvtps_epi32(_mm256_mul_ps(odd, by));
    return _mm256_or_si256(_mm256_and_si256(a, _mm256_set1_epi32(0xFFFF)), _mm256_slli_epi32(b, 16));
}

/* From the largest sizes of 8 columns their scales, and what to multiply by. */
static __m256 scales_of(__m256i most, float *scale) {
    float by[8];
    int32_t lane[8];
    _mm256_storeu_si256((__m256i *)lane, most);
    for (int j = 0; j < 8; j++) scale[j] = scale_of(lane[j], &by[j]);
    return _mm256_loadu_ps(by);
}

#define NEAR 8 /* panels packed at a time: they lie side by side in a row of x */

/* N columns of x (K, ·) as up to NEAR panels of B. */
static void panels_of_columns(const float *x, long ldx, long N, long K, int32_t *to, float *scale) {
    __m256i most[2 * NEAR];
    __m256 by[2 * NEAR], none = _mm256_setzero_ps();
    long eights = 2 * count(N, COLUMNS), pairs = count(K, 2);
    for (long j = 0; j < eights; j++) most[j] = _mm256_setzero_si256();
    for (long k = 0; k < K; k++)
        for (long j = 0; j < eights; j++) most[j] = _mm256_max_epi32(most[j], sizes(load(x + k * ldx + 8 * j, N - 8 * j)));
    for (long j = 0; j < eights; j++) by[j] = scales_of(most[j], scale + 8 * j);
    for (long k = 0; k < K; k += 2)
        for (long j = 0; j < eights; j++) {
            const float *at = x + k * ldx + 8 * j;
            __m256i pair = paired(load(at, N - 8 * j), k + 1 < K ? load(at + ldx, N - 8 * j) : none, by[j]);
            _mm256_store_si256((__m256i *)(to + (j / 2 * pairs + k / 2) * COLUMNS + j % 2 * 8), pair);
        }
}

/* Panels p0 to p1 of the columns of x (K, N). */
static void pack_columns(const float *x, long ldx, long N, long K, Packed to, long p0, long p1) {
    for (long p = p0; p < p1; p += NEAR) {
        long n = p * COLUMNS, some = least(least(p + NEAR, p1) * COLUMNS, N) - n;
        panels_of_columns(x + n, ldx, some, K, to.at + n * count(K, 2), to.scale + n);
    }
}

/* Columns of x (K, ·) as a block of A, which is the i-th of `to`. */
static void block_of_columns(const float *x, long ldx, long some, long K, Packed to, long i) {
    int32_t *at = to.at + i * ROWS * count(K, 2);
    float each[8], *scale = to.scale + i * ROWS * count(K, CHUNK);
    __m256 by = _mm256_setzero_ps(), none = by;
    for (long k = 0; k < K; k += 2) {
        if (k % CHUNK == 0) {
            __m256i most = _mm256_setzero_si256();
            for (long i = k; i < least(k + CHUNK, K); i++) most = _mm256_max_epi32(most, sizes(load(x + i * ldx, some)));
            by = scales_of(most, each);
            memcpy(scale + k / CHUNK * ROWS, each, ROWS * 4);
        }
        __m256i pair = paired(load(x + k * ldx, some), k + 1 < K ? load(x + (k + 1) * ldx, some) : none, by);
        if (k + 2 < K) _mm256_storeu_si256((__m256i *)(at + k / 2 * ROWS), pair); /* what is too much is overwritten by the next */
        else _mm256_maskstore_epi32(at + k / 2 * ROWS, first(ROWS), pair);
    }
}

/* Room for M rows of A or columns of B with K numbers each. */
static Packed packed(long M, long K) {
    return (Packed){room(up(M, ROWS * COLUMNS) * up(K, 2) * 2), room(up(M, ROWS * COLUMNS) * count(K, CHUNK) * 4)};
}

static int made(const Packed *p) { return p->at && p->scale; }
static void release(Packed *p) { free(p->at), free(p->scale); }
