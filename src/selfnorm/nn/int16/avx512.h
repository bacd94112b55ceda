/* Vectors of 16 numbers, and the sums of a block and a panel with AVX-512 and its VNNI instructions. */

#define LANES 16
#define ROWS 10
#define COLUMNS 32
#define GROUP 40 /* blocks of A that stay in the second cache while panels pass by */

typedef __m512 Reals;
typedef __m512i Wholes;

static __mmask16 first(long n) { return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1; }
static Reals load(const float *x, long left) { return _mm512_maskz_loadu_ps(first(left), x); }
static void save(float *to, long left, Reals x) { _mm512_mask_storeu_ps(to, first(left), x); }
static void save_wholes(int32_t *to, long left, Wholes x) { _mm512_mask_storeu_epi32(to, first(left), x); }
static Wholes load_wholes(const void *x) { return _mm512_loadu_si512(x); }
static void save_short(int16_t *to, Wholes x) { _mm256_storeu_si256((__m256i *)to, _mm512_cvtsepi32_epi16(x)); }
static Reals all(float x) { return _mm512_set1_ps(x); }
static Wholes whole(int32_t x) { return _mm512_set1_epi32(x); }
static Reals smaller(Reals a, Reals b) { return _mm512_min_ps(a, b); } /* the second if either is not a number */
static Reals larger(Reals a, Reals b) { return _mm512_max_ps(a, b); }
static Reals nearest(Reals x) { return _mm512_roundscale_ps(x, 0); }
static Wholes to_wholes(Reals x) { return _mm512_cvtps_epi32(x); }
static Wholes largest_each(Wholes a, Wholes b) { return _mm512_max_epi32(a, b); }
static int32_t largest_of(Wholes x) { return _mm512_reduce_max_epi32(x); }
static Wholes both(Wholes a, Wholes b) { return _mm512_and_si512(a, b); }
static Wholes either(Wholes a, Wholes b) { return _mm512_or_si512(a, b); }
static Wholes left_by(Wholes x, int bits) { return _mm512_slli_epi32(x, bits); }
static Wholes bits_of(Reals x) { return _mm512_castps_si512(x); }
static Reals power_of_two(Reals n) { return _mm512_scalef_ps(_mm512_set1_ps(1), n); }

/* Rows to columns. */
static inline void turn(Wholes *v) {
    Wholes t[16];
    for (int i = 0; i < 16; i += 2) t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]), v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]), v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int j = 0; j < 4; j++) { /* quarter q of v[4i + j] belongs to column 4q + j, rows 4i to 4i + 3 */
        Wholes even = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88), odd = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xDD);
        Wholes even_low = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88), odd_low = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xDD);
        t[j] = _mm512_shuffle_i32x4(even, even_low, 0x88), t[8 + j] = _mm512_shuffle_i32x4(even, even_low, 0xDD);
        t[4 + j] = _mm512_shuffle_i32x4(odd, odd_low, 0x88), t[12 + j] = _mm512_shuffle_i32x4(odd, odd_low, 0xDD);
    }
    for (int i = 0; i < 16; i++) v[i] = t[i];
}

/* What the pair at `at` of the row r adds to that row's sums, the registers s0 and s1. In assembler: compilers keep some of the
   20 sums in memory, and take at most 30 operands. */
#define ROW(at, r, x, s0, s1)                                  \
    "vpbroadcastd 40*" #at "+4*" #r "(%[a]), %%zmm" #x "\n\t"  \
    "vpdpwssd %%zmm2, %%zmm" #x ", %%zmm" #s0 "\n\t"           \
    "vpdpwssd %%zmm3, %%zmm" #x ", %%zmm" #s1 "\n\t"
#define PAIR(at)                                                                                 \
    "vmovdqa64 128*" #at "(%[b]), %%zmm2\n\tvmovdqa64 128*" #at "+64(%[b]), %%zmm3\n\t"          \
    "prefetcht1 128*" #at "(%[next])\n\tprefetcht1 128*" #at "+64(%[next])\n\t"                  \
    ROW(at, 0, 0, 12, 13) ROW(at, 1, 1, 14, 15) ROW(at, 2, 0, 16, 17) ROW(at, 3, 1, 18, 19)      \
    ROW(at, 4, 0, 20, 21) ROW(at, 5, 1, 22, 23) ROW(at, 6, 0, 24, 25) ROW(at, 7, 1, 26, 27)      \
    ROW(at, 8, 0, 28, 29) ROW(at, 9, 1, 30, 31)
#define SUMS(op)                                                                                 \
    op(0, 12, 13) op(1, 14, 15) op(2, 16, 17) op(3, 18, 19) op(4, 20, 21) op(5, 22, 23)          \
    op(6, 24, 25) op(7, 26, 27) op(8, 28, 29) op(9, 30, 31)
#define CLEAR(r, s0, s1) "vpxord %%zmm" #s0 ", %%zmm" #s0 ", %%zmm" #s0 "\n\tvpxord %%zmm" #s1 ", %%zmm" #s1 ", %%zmm" #s1 "\n\t"
/* Row r of the tile: from + sums · a_scale · b_scale, which is in zmm2 and zmm3. */
#define FINISH(r, s0, s1)                                                                              \
    "vbroadcastss 4*" #r "(%[a_scale]), %%zmm0\n\t"                                                    \
    "vcvtdq2ps %%zmm" #s0 ", %%zmm" #s0 "\n\tvcvtdq2ps %%zmm" #s1 ", %%zmm" #s1 "\n\t"                 \
    "vmulps %%zmm0, %%zmm" #s0 ", %%zmm" #s0 "\n\tvmulps %%zmm0, %%zmm" #s1 ", %%zmm" #s1 "\n\t"       \
    "vfmadd213ps (%[from]), %%zmm2, %%zmm" #s0 "\n\tvfmadd213ps 64(%[from]), %%zmm3, %%zmm" #s1 "\n\t" \
    "vmovups %%zmm" #s0 ", (%[to])\n\tvmovups %%zmm" #s1 ", 64(%[to])\n\tadd %[ld], %[from]\n\tadd %[ldc], %[to]\n\t"

/* to = from + terms, for a whole tile; its rows are ld and ldc numbers apart. Inline, so that the terms stay in registers: passed
   in memory, those of each tile waited for the stores of the tile before. */
static inline __attribute__((always_inline)) void add_tile(Terms t, const float *from, long ld, float *to, long ldc) {
    const int32_t *next = t.next ? t.next : t.b;
    __asm__ volatile(SUMS(CLEAR)
                     "sub $4, %[left]\n\tjl 2f\n"
                     "1:\n\t" PAIR(0) PAIR(1) PAIR(2) PAIR(3)
                     "add $160, %[a]\n\tadd $512, %[b]\n\tadd $512, %[next]\n\tsub $4, %[left]\n\tjge 1b\n"
                     "2:\n\tadd $4, %[left]\n\tjz 4f\n"
                     "3:\n\t" PAIR(0)
                     "add $40, %[a]\n\tadd $128, %[b]\n\tadd $128, %[next]\n\tdec %[left]\n\tjnz 3b\n"
                     "4:\n\tvmovups (%[b_scale]), %%zmm2\n\tvmovups 64(%[b_scale]), %%zmm3\n\t" SUMS(FINISH)
                     : [left] "+&r"(t.pairs), [a] "+&r"(t.a), [b] "+&r"(t.b), [next] "+&r"(next), [from] "+&r"(from), [to] "+&r"(to)
                     : [a_scale] "r"(t.a_scale), [b_scale] "r"(t.b_scale), [ld] "r"(4 * ld), [ldc] "r"(4 * ldc)
                     : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18",
                       "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
}
