/* Matrices in float32 to whole numbers with scales, in blocks or panels: `wide` is ROWS or COLUMNS. */

/* The size of numbers as whole numbers: they have the same order, and what is not finite is the largest. */
static Wholes sizes(Reals x) { return both(bits_of(x), whole(0x7FFFFFFF)); }

/* From the largest size: the scale of the whole numbers, and what to multiply by to get them. Not a number if anything was. */
static float scale_of(int32_t most, float *by) {
    float largest;
    memcpy(&largest, &most, 4);
    int finite = most < 0x7F800000;
    *by = finite && largest > 1e-30f ? LIMIT / largest : 0;
    return finite ? largest / LIMIT : NAN;
}

/* A chunk of K numbers of a row to 16-bit numbers, zeros up to a multiple of 2 · LANES; returns their scale. Rows are ldx apart. */
static float rounded(const float *x, long ldx, long K, int16_t *to) {
    Wholes most = whole(0);
    long k, full = K / LANES * LANES;
    for (k = 0; k < full; k += LANES) {
        __builtin_prefetch(x + 2 * ldx + k);
        most = largest_each(most, sizes(load(x + k, LANES)));
    }
    most = largest_each(most, sizes(load(x + full, K - full)));
    float by, scale = scale_of(largest_of(most), &by);
    for (k = 0; k < full; k += LANES) save_short(to + k, to_wholes(load(x + k, LANES) * all(by)));
    for (; k < up(K, 2 * LANES); k += LANES) save_short(to + k, to_wholes(load(x + k, K - k) * all(by)));
    return scale;
}

/* A chunk of K numbers of `some` rows of x, as one of `wide` rows. */
static void chunk_of_rows(const float *x, long ldx, long some, long wide, long K, int32_t *to, float *scale) {
    int16_t line[LANES][CHUNK + 2 * LANES] __attribute__((aligned(64))); /* rows that do not all lie in the same lines of a cache */
    long pairs = count(K, 2);
    for (long r0 = 0; r0 < wide; r0 += LANES) {
        long rows = least(LANES, wide - r0);
        for (long r = 0; r < LANES; r++) {
            int there = r < rows && r0 + r < some;
            float one = there ? rounded(x + (r0 + r) * ldx, ldx, K, line[r]) : 0;
            if (!there) memset(line[r], 0, up(K, 2 * LANES) * 2);
            if (r < rows) scale[r0 + r] = one;
        }
        for (long k = 0; k < pairs; k += LANES) {
            Wholes v[LANES];
            for (int r = 0; r < LANES; r++) v[r] = load_wholes(line[r] + 2 * k);
            turn(v);
            for (long i = 0; i < least(LANES, pairs - k); i++) /* what is too much is overwritten by the next */
                save_wholes(to + (k + i) * wide + r0, k + i + 1 < pairs ? LANES : rows, v[i]);
        }
    }
}

/* `some` rows of x, K numbers of each, as the i-th block or panel of `to`. */
static void pack_rows(const float *x, long ldx, long some, long wide, long K, Packed to, long i) {
    int32_t *at = to.at + i * wide * count(K, 2);
    float *scale = to.scale + i * wide * count(K, CHUNK);
    for (long k = 0; k < K; k += CHUNK, scale += wide)
        chunk_of_rows(x + k, ldx, some, wide, least(CHUNK, K - k), at + k / 2 * wide, scale);
}

/* The pairs of LANES columns in two rows. */
static Wholes paired(Reals even, Reals odd, Reals by) {
    return either(both(to_wholes(even * by), whole(0xFFFF)), left_by(to_wholes(odd * by), 16));
}

/* From the largest sizes of LANES columns the scales of the first `some`, and what to multiply by. */
static Reals scales_of(Wholes most, float *scale, long some) {
    float by[LANES], one[LANES];
    int32_t lane[LANES];
    save_wholes(lane, LANES, most);
    for (int j = 0; j < LANES; j++) one[j] = scale_of(lane[j], &by[j]);
    memcpy(scale, one, some * 4);
    return load(by, LANES);
}

#define NEAR 16  /* vectors of columns packed at a time: they lie side by side in a row of x */
#define AHEAD 12 /* how many rows ahead is prefetched */

/* LANES columns, or fewer, of a block or panel: which ones, how many, and where their pairs and scales go. */
typedef struct {
    long column, lanes;
    int32_t *at;
    float *scale;
} Lanes;

static Lanes lanes_of(long v, long wide, long K, long chunk, Packed to) {
    long block = v / count(wide, LANES), offset = v % count(wide, LANES) * LANES;
    return (Lanes){block * wide + offset, least(LANES, wide - offset), to.at + (block * count(K, 2) + chunk * (CHUNK / 2)) * wide + offset,
                   to.scale + (block * count(K, CHUNK) + chunk) * wide + offset};
}

/* A chunk of K rows of n times LANES columns of x, which has N. Where `all_there` is 1, all of them are there. */
static inline __attribute__((always_inline)) void chunk_of_lanes(const float *x, long ldx, long N, long wide, long K, const Lanes *to,
                                                                 long n, int all_there) {
    Wholes most[NEAR];
    Reals by[NEAR], none = all(0);
    for (long j = 0; j < n; j++) most[j] = whole(0);
    for (long k = 0; k < K; k++)
        for (long j = 0; j < n; j++) {
            const float *from = x + k * ldx + to[j].column;
            __builtin_prefetch(from + AHEAD * ldx);
            most[j] = largest_each(most[j], sizes(load(from, all_there ? LANES : N - to[j].column)));
        }
    for (long j = 0; j < n; j++) by[j] = scales_of(most[j], to[j].scale, to[j].lanes);
    for (long k = 0; k < K; k += 2)
        for (long j = 0; j < n; j++) {
            const float *from = x + k * ldx + to[j].column;
            long left = all_there ? LANES : N - to[j].column;
            Wholes pair = paired(load(from, left), k + 1 < K ? load(from + ldx, left) : none, by[j]);
            save_wholes(to[j].at + k / 2 * wide, k + 2 < K ? LANES : to[j].lanes, pair); /* what is too much is overwritten by the next */
        }
}

/* The same, without masks where they are not needed. */
static void chunk_of_columns(const float *x, long ldx, long N, long wide, long K, const Lanes *to, long n) {
    if (to[n - 1].column + LANES <= N) chunk_of_lanes(x, ldx, N, wide, K, to, n, 1);
    else chunk_of_lanes(x, ldx, N, wide, K, to, n, 0);
}

/* Columns of x (K, N) as the blocks or panels b0 to b1 of `to`. */
static void pack_columns(const float *x, long ldx, long N, long wide, long K, Packed to, long b0, long b1) {
    long per = count(wide, LANES);
    for (long k = 0; k < K; k += CHUNK)
        for (long v = b0 * per; v < b1 * per; v += NEAR) {
            Lanes some[NEAR];
            long n = least(NEAR, b1 * per - v);
            for (long j = 0; j < n; j++) some[j] = lanes_of(v + j, wide, K, k / CHUNK, to);
            chunk_of_columns(x + k * ldx, ldx, N, wide, least(CHUNK, K - k), some, n);
        }
}

/* Room for M rows of A or columns of B with K numbers each. */
static Packed packed(long M, long K) {
    return (Packed){room(up(M, ROWS * COLUMNS) * up(K, 2) * 2), room(up(M, ROWS * COLUMNS) * count(K, CHUNK) * 4)};
}

static int made(const Packed *p) { return p->at && p->scale; }
static void release(Packed *p) { free(p->at), free(p->scale); }
