/* Matrices in float32 to bf16, in the order the tiles want them. */

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

/* 16 vectors of 16 numbers of 32 bits to their transpose, in place. */
static void turn(__m512i x[16]) {
    __m512i y[16];
    for (int i = 0; i < 16; i += 2) y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]), y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = _mm512_unpacklo_epi64(y[i + j], y[i + j + 2]);
            x[i + 2 * j + 1] = _mm512_unpackhi_epi64(y[i + j], y[i + j + 2]);
        }
    for (int j = 0; j < 4; j++) { /* x[4i + j] has the columns j, 4 + j, 8 + j, 12 + j of the rows 4i to 4i + 3 */
        __m512i a = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88), b = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xDD);
        __m512i c = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88), d = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xDD);
        y[j] = _mm512_shuffle_i32x4(a, c, 0x88), y[8 + j] = _mm512_shuffle_i32x4(a, c, 0xDD);
        y[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88), y[12 + j] = _mm512_shuffle_i32x4(b, d, 0xDD);
    }
    for (int i = 0; i < 16; i++) x[i] = y[i];
}

/* The same of a matrix that is stored the other way round: x (N, K), B = xᵀ. */
static void panels_of_transposed(const float *x, long ldx, long K, long N, bf16 *to) {
    long depth = up(K, 32);
    for (long n = 0; n < N; n += 32)
        for (long k = 0; k < depth; k += 32)
            for (int half = 0; half < 2; half++, to += 512) {
                __m512i tile[16];
                for (int r = 0; r < 16; r++) {
                    long row = n + 16 * half + r;
                    tile[r] = row < N ? thirty_two(x + row * ldx + k, K - k) : _mm512_setzero_si512();
                }
                turn(tile);
                for (int r = 0; r < 16; r++) _mm512_store_si512(to + 32 * r, tile[r]);
            }
}

/* bf16 rows (M, N) to their transpose, rows of `width` numbers, zeros behind. Rows of x are read in blocks of 32 numbers. */
static void transpose(const bf16 *x, long ldx, long M, long N, bf16 *to, long width) {
    __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (long n = 0; n < N; n += 32)
        for (long i = 0; i < width; i += 32) {
            __m512i words[2][16];
            for (int r = 0; r < 16; r++) {
                long at = i + 2 * r;
                __m512i a = at < M ? _mm512_loadu_si512(x + at * ldx + n) : _mm512_setzero_si512();
                __m512i b = at + 1 < M ? _mm512_loadu_si512(x + (at + 1) * ldx + n) : _mm512_setzero_si512();
                words[0][r] = _mm512_permutex2var_epi16(a, low, b), words[1][r] = _mm512_permutex2var_epi16(a, high, b);
            }
            turn(words[0]), turn(words[1]);
            for (long j = 0; j < 32 && n + j < N; j++) _mm512_storeu_si512(to + (n + j) * width + i, words[j / 16][j % 16]);
        }
}
