/* A product of two matrices, by a team of threads. */

typedef struct {
    long M, N, K, turned_a, lda, turned_b, ldb, ldc;
    const float *a, *b, *bias;
    float *C;
    Packed A, B;
    int16_t *line; /* of each thread */
} Matrices;

static void pack_both(const Matrices *m, Member me) {
    long pairs = count(m->K, 2), blocks = count(m->M, ROWS), panels = count(m->N, COLUMNS);
    int16_t *line = m->line + me.id * line_of(m->K);
    for (long b = share(blocks, me, 0); b < share(blocks, me, 1); b++) {
        long i = b * ROWS, some = least(ROWS, m->M - i);
        if (m->turned_a) block_of_columns(m->a + i, m->lda, some, m->K, m->A, b);
        else block_of_rows(m->a + i * m->lda, m->lda, some, m->K, m->A, b, line);
    }
    if (!m->turned_b) pack_columns(m->b, m->ldb, m->N, m->K, m->B, share(panels, me, 0), share(panels, me, 1));
    else
        for (long p = share(panels, me, 0); p < share(panels, me, 1); p++) {
            long n = p * COLUMNS;
            panel_of_rows(m->b + n * m->ldb, m->ldb, least(COLUMNS, m->N - n), m->K, m->B.at + n * pairs, m->B.scale + n, line);
        }
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
    Matrices m = {M, N, K, turned_a, lda, turned_b, ldb, ldc, a, b, bias, C, packed(M, K), packed(N, K), NULL};
    m.line = room(line_of(K) * 2 * threads);
    int ok = made(&m.A) && made(&m.B) && m.line;
    if (ok) together(matrices, &m, threads);
    release(&m.A), release(&m.B), free(m.line);
    return ok;
}
