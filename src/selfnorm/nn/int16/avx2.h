/* Vectors of 8 numbers, and the sums of a block and a panel with AVX2. */

#define LANES 8
#define ROWS 5
#define COLUMNS 16
#define GROUP 16 /* blocks of A that stay in the second cache while panels pass by */

typedef __m256 Reals;
typedef __m256i Wholes;

static const int32_t MASK[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

static Wholes first(long n) { return _mm256_loadu_si256((const __m256i *)(MASK + 8 - (n > 8 ? 8 : n < 0 ? 0 : n))); }
static Reals load(const float *x, long left) { return left >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first(left)); }
static void save(float *to, long left, Reals x) {
    if (left >= 8) _mm256_storeu_ps(to, x);
    else _mm256_maskstore_ps(to, first(left), x);
}
static void save_wholes(int32_t *to, long left, Wholes x) {
    if (left >= 8) _mm256_storeu_si256((__m256i *)to, x);
    else _mm256_maskstore_epi32(to, first(left), x);
}
static Wholes load_wholes(const void *x) { return _mm256_loadu_si256(x); }
static void save_short(int16_t *to, Wholes x) {
    __m128i low = _mm256_castsi256_si128(x), high = _mm256_extracti128_si256(x, 1);
    _mm_storeu_si128((__m128i *)to, _mm_packs_epi32(low, high));
}
static Reals all(float x) { return _mm256_set1_ps(x); }
static Wholes whole(int32_t x) { return _mm256_set1_epi32(x); }
static Reals smaller(Reals a, Reals b) { return _mm256_min_ps(a, b); } /* the second if either is not a number */
static Reals larger(Reals a, Reals b) { return _mm256_max_ps(a, b); }
static Reals nearest(Reals x) { return _mm256_round_ps(x, 0); }
static Wholes to_wholes(Reals x) { return _mm256_cvtps_epi32(x); }
static Reals to_reals(Wholes x) { return _mm256_cvtepi32_ps(x); }
static Wholes largest_each(Wholes a, Wholes b) { return _mm256_max_epi32(a, b); }
static int32_t largest_of(Wholes x) {
    int32_t lane[8], top = 0;
    _mm256_storeu_si256((__m256i *)lane, x);
    for (int i = 0; i < 8; i++) top = lane[i] > top ? lane[i] : top;
    return top;
}
static Wholes both(Wholes a, Wholes b) { return _mm256_and_si256(a, b); }
static Wholes either(Wholes a, Wholes b) { return _mm256_or_si256(a, b); }
static Wholes left_by(Wholes x, int bits) { return _mm256_slli_epi32(x, bits); }
static Wholes bits_of(Reals x) { return _mm256_castps_si256(x); }
static Reals power_of_two(Reals n) { /* for whole n within ±126 */
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

/* Rows to columns. */
static inline void turn(Wholes *v) {
    Wholes t[8];
    for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]), t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    for (int i = 0; i < 8; i += 4) {
        v[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]), v[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]), v[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int j = 0; j < 4; j++) { /* half q of v[4i + j] belongs to column 4q + j, rows 4i to 4i + 3 */
        t[j] = _mm256_permute2x128_si256(v[j], v[4 + j], 0x20), t[4 + j] = _mm256_permute2x128_si256(v[j], v[4 + j], 0x31);
    }
    for (int i = 0; i < 8; i++) v[i] = t[i];
}

/* What the pair at `at` of the row r adds to that row's sums. In assembler: compilers keep half of the sums in memory. */
#define ROW(at, r, x, y, s0, s1)                                                                                  \
    "vpbroadcastd 20*" #at "+4*" #r "(%[a]), %[" #x "]\n\t"                                                         \
    "vpmaddwd %[low], %[" #x "], %[" #y "]\n\tvpmaddwd %[high], %[" #x "], %[" #x "]\n\t"                          \
    "vpaddd %[" #y "], %[" #s0 "], %[" #s0 "]\n\tvpaddd %[" #x "], %[" #s1 "], %[" #s1 "]\n\t"
#define PAIR(at)                                                                                                 \
    "vmovdqa 64*" #at "(%[b]), %[low]\n\tvmovdqa 64*" #at "+32(%[b]), %[high]\n\t"                               \
    ROW(at, 0, x, y, s0, s1) ROW(at, 1, u, v, s2, s3) ROW(at, 2, x, y, s4, s5) ROW(at, 3, u, v, s6, s7) ROW(at, 4, x, y, s8, s9)
#define ADD(code, pairs)                                                                                         \
    __asm__(code                                                                                                 \
            : [s0] "+x"(s[0]), [s1] "+x"(s[1]), [s2] "+x"(s[2]), [s3] "+x"(s[3]), [s4] "+x"(s[4]), [s5] "+x"(s[5]), \
              [s6] "+x"(s[6]), [s7] "+x"(s[7]), [s8] "+x"(s[8]), [s9] "+x"(s[9]), [low] "=&x"(low),              \
              [high] "=&x"(high), [x] "=&x"(x), [y] "=&x"(y), [u] "=&x"(u), [v] "=&x"(v)                         \
            : [a] "r"(a), [b] "r"(b), "m"(*(const int32_t(*)[pairs * ROWS])a), "m"(*(const int32_t(*)[pairs * COLUMNS])b))

/* s[2r] and s[2r + 1]: sums over `left` pairs of row r of a block and 2 · 8 columns of a panel. */
static inline void add_up(long left, const int32_t *a, const int32_t *b, Wholes *s) {
    Wholes low, high, x, y, u, v;
    for (int r = 0; r < 2 * ROWS; r++) s[r] = whole(0);
    for (; left >= 4; left -= 4, a += 4 * ROWS, b += 4 * COLUMNS) ADD(PAIR(0) PAIR(1) PAIR(2) PAIR(3), 4);
    for (; left > 0; left--, a += ROWS, b += COLUMNS) ADD(PAIR(0), 1);
}

/* to = from + terms, for a whole tile; its rows are ld and ldc numbers apart. */
static inline void add_tile(Terms t, const float *from, long ld, float *to, long ldc) {
    Wholes s[2 * ROWS];
    add_up(t.pairs, t.a, t.b, s);
    Reals low = load(t.b_scale, LANES), high = load(t.b_scale + LANES, LANES);
    for (int r = 0; r < ROWS; r++, from += ld, to += ldc) {
        Reals scale = all(t.a_scale[r]);
        save(to, LANES, _mm256_fmadd_ps(to_reals(s[2 * r]) * scale, low, load(from, LANES)));
        save(to + LANES, LANES, _mm256_fmadd_ps(to_reals(s[2 * r + 1]) * scale, high, load(from + LANES, LANES)));
    }
}
