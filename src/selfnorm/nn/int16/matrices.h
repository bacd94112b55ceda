/* A product of two matrices, by a team of threads. */

typedef struct {
    long M, N, K, turned_a, lda, turned_b, ldb, ldc;
    const float *a, *b, *bias;
    float *C;
    Packed A, B;
} Matrices;

static void pack_both(const Matrices *m, Member me) {
    long blocks = count(m->M, ROWS), panels = count(m->N, COLUMNS);
    long b0 = share(blocks, me, 0), b1 = share(blocks, me, 1), p0 = share(panels, me, 0), p1 = share(panels, me, 1);
    if (m->turned_a) pack_columns(m->a, m->lda, m->M, ROWS, m->K, m->A, b0, b1);
    else
        for (long b = b0; b < b1; b++) pack_rows(m->a + b * ROWS * m->lda, m->lda, least(ROWS, m->M - b * ROWS), ROWS, m->K, m->A, b);
    if (!m->turned_b) pack_columns(m->b, m->ldb, m->N, COLUMNS, m->K, m->B, p0, p1);
    else
        for (long p = p0; p < p1; p++)
            pack_rows(m->b + p * COLUMNS * m->ldb, m->ldb, least(COLUMNS, m->N - p * COLUMNS), COLUMNS, m->K, m->B, p);
}

static void matrices(void *job, Member me) {
    Matrices *m = job;
    long blocks = count(m->M, ROWS), panels = count(m->N, COLUMNS);
    pack_both(m, me);
    meet();
    Product p = {count(m->K, 2), m->N, m->M, blocks, m->A, m->B, m->C, m->ldc, m->bias, 0, 0};
    if (m->M > m->N) multiply(&p, share(blocks, me, 0), share(blocks, me, 1), 0, panels);
    else multiply(&p, 0, blocks, share(panels, me, 0), share(panels, me, 1));
}

/* C (M, N) = a·b + bias, for a (M, K) and b (K, N); `turned` ones are stored the other way round. Rows are ld numbers apart. */
int int16_product(long threads, long M, long N, long K, long turned_a, const float *a, long lda, long turned_b, const float *b, long ldb,
                  const float *bias, float *C, long ldc) {
    Matrices m = {M, N, K, turned_a, lda, turned_b, ldb, ldc, a, b, bias, C, packed(M, K), packed(N, K)};
    int ok = made(&m.A) && made(&m.B);
    if (ok) together(matrices, &m, threads);
    release(&m.A), release(&m.B);
    return ok;
}
