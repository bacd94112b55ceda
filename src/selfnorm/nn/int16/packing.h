/* Matrices in float32 to whole numbers with scales, in blocks and panels. */

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

static int32_t largest_of(Wholes most) {
    int32_t lane[LANES], top = 0;
    save_wholes(lane, LANES, most);
    for (int i = 0; i < LANES; i++) top = lane[i] > top ? lane[i] : top;
    return top;
}

/* A row of K numbers to 16-bit numbers, zeros up to a multiple of 2 · LANES; returns their scale. */
static float rounded(const float *x, long K, int16_t *to) {
    Wholes most = whole(0);
    for (long k = 0; k < K; k += LANES) most = largest_each(most, sizes(load(x + k, K - k)));
    float by, scale = scale_of(largest_of(most), &by);
    for (long k = 0; k < up(K, 2 * LANES); k += LANES) save_short(to + k, to_wholes(load(x + k, K - k) * all(by)));
    return scale;
}

/* Numbers of the memory that LANES rows of K rounded numbers take. */
static long line_of(long K) { return LANES * up(K, 64); }

/* `some` rows of x, K numbers of each, as one of `wide` rows; `line` has room for line_of(K) numbers. */
static void from_rows(const float *x, long ldx, long some, long wide, long K, int32_t *to, float *scale, int16_t *line) {
    long pairs = count(K, 2), next = up(K, 64);
    for (long r0 = 0; r0 < wide; r0 += LANES) {
        long rows = least(LANES, wide - r0);
        for (long r = 0; r < LANES; r++) {
            int there = r < rows && r0 + r < some;
            float one = there ? rounded(x + (r0 + r) * ldx, K, line + r * next) : 0;
            if (!there) memset(line + r * next, 0, next * 2);
            if (r < rows) scale[r0 + r] = one;
        }
        for (long k = 0; k < pairs; k += LANES) {
            Wholes v[LANES];
            for (int r = 0; r < LANES; r++) v[r] = load_wholes(line + r * next + 2 * k);
            turn(v);
            for (long i = 0; i < least(LANES, pairs - k); i++) /* what is too much is overwritten by the next */
                save_wholes(to + (k + i) * wide + r0, k + i + 1 < pairs ? LANES : rows, v[i]);
        }
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

/* The pairs of LANES columns in two rows. */
static Wholes paired(Reals even, Reals odd, Reals by) {
    return either(both(to_wholes(even * by), whole(0xFFFF)), left_by(to_wholes(odd * by), 16));
}

/* From the largest sizes of LANES columns their scales, and what to multiply by. */
static Reals scales_of(Wholes most, float *scale) {
    float by[LANES];
    int32_t lane[LANES];
    save_wholes(lane, LANES, most);
    for (int j = 0; j < LANES; j++) scale[j] = scale_of(lane[j], &by[j]);
    return load(by, LANES);
}

#define NEAR 8 /* panels packed at a time: they lie side by side in a row of x */

/* N columns of x (K, ·) as up to NEAR panels of B. */
static void panels_of_columns(const float *x, long ldx, long N, long K, int32_t *to, float *scale) {
    Wholes most[2 * NEAR];
    Reals by[2 * NEAR], none = all(0);
    long parts = 2 * count(N, COLUMNS), pairs = count(K, 2); /* a panel is two vectors wide */
    for (long j = 0; j < parts; j++) most[j] = whole(0);
    for (long k = 0; k < K; k++)
        for (long j = 0; j < parts; j++) most[j] = largest_each(most[j], sizes(load(x + k * ldx + LANES * j, N - LANES * j)));
    for (long j = 0; j < parts; j++) by[j] = scales_of(most[j], scale + LANES * j);
    for (long k = 0; k < K; k += 2)
        for (long j = 0; j < parts; j++) {
            const float *at = x + k * ldx + LANES * j;
            Wholes pair = paired(load(at, N - LANES * j), k + 1 < K ? load(at + ldx, N - LANES * j) : none, by[j]);
            save_wholes(to + (j / 2 * pairs + k / 2) * COLUMNS + j % 2 * LANES, LANES, pair);
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
    float each[LANES], *scale = to.scale + i * ROWS * count(K, CHUNK);
    Reals by = all(0), none = by;
    for (long k = 0; k < K; k += 2) {
        if (k % CHUNK == 0) {
            Wholes most = whole(0);
            for (long i = k; i < least(k + CHUNK, K); i++) most = largest_each(most, sizes(load(x + i * ldx, some)));
            by = scales_of(most, each);
            memcpy(scale + k / CHUNK * ROWS, each, ROWS * 4);
        }
        Wholes pair = paired(load(x + k * ldx, some), k + 1 < K ? load(x + (k + 1) * ldx, some) : none, by);
        save_wholes(at + k / 2 * ROWS, k + 2 < K ? LANES : ROWS, pair); /* what is too much is overwritten by the next */
    }
}

/* Room for M rows of A or columns of B with K numbers each. */
static Packed packed(long M, long K) {
    return (Packed){room(up(M, ROWS * COLUMNS) * up(K, 2) * 2), room(up(M, ROWS * COLUMNS) * count(K, CHUNK) * 4)};
}

static int made(const Packed *p) { return p->at && p->scale; }
static void release(Packed *p) { free(p->at), free(p->scale); }
