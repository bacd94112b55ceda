/* An LSTM layer as a whole, forward and backward, by a team of threads. */

/* e^x for x within ±80; what is not a number stays so. */
static Reals exponential(Reals x) {
    x = larger(all(-80), smaller(all(80), x));
    Reals n = nearest(x * all(1.44269504f)), r = x - n * all(0.693359375f) + n * all(2.12194440e-4f);
    Reals p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(0.5f);
    return (p * r * r + r + all(1)) * power_of_two(n);
}

static Reals sigmoid(Reals x) { return all(1) / (all(1) + exponential(-x)); }
static Reals hyperbolic(Reals x) { return all(2) * sigmoid(x + x) - all(1); } /* tanh x = 2 σ(2x) - 1 */

typedef struct {
    long T, B, d, ld, wide; /* rows of gates are ld numbers apart, of their gradients `wide` */
    const float *x, *w_x, *w_h, *bias, *h0, *c0, *dy;
    float *y, *gates, *cells, *dx, *d_wx, *d_wh, *d_bias;
    float *dg, *dh, *dc, *hs; /* (T·B, wide), (B, d), (B, d), (T·B, d) */
    Packed wx, wh, rows, state, turned;
} Layer;

/* Gates of a row, in place; its cell and output. */
static void activate(const Layer *l, long row) {
    long d = l->d;
    float *gate = l->gates + row * l->ld, *cell = l->cells + row * d, *out = l->y + row * d;
    const float *before = row < l->B ? l->c0 + row * d : cell - l->B * d;
    for (long j = 0; j < d; j += LANES) {
        long n = d - j;
        float *g = gate + j;
        Reals in = sigmoid(load(g, n)), keep = sigmoid(load(g + d, n)), new = hyperbolic(load(g + 2 * d, n)), open = sigmoid(load(g + 3 * d, n));
        Reals c = keep * load(before + j, n) + in * new;
        save(g, n, in), save(g + d, n, keep), save(g + 2 * d, n, new), save(g + 3 * d, n, open);
        save(cell + j, n, c), save(out + j, n, open * hyperbolic(c));
    }
}

static void forward(void *job, Member me) {
    Layer *l = job;
    long d = l->d, B = l->B, N = l->T * B, pairs = count(d, 2), blocks = count(B, ROWS);
    long p0 = share(count(4 * d, COLUMNS), me, 0), p1 = share(count(4 * d, COLUMNS), me, 1);
    long b0 = share(blocks, me, 0), b1 = share(blocks, me, 1);
    for (long p = p0; p < p1; p++) {
        long n = p * COLUMNS, some = least(COLUMNS, 4 * d - n);
        pack_rows(l->w_x + n * d, d, some, COLUMNS, d, l->wx, p);
        pack_rows(l->w_h + n * d, d, some, COLUMNS, d, l->wh, p);
    }
    for (long b = share(count(N, ROWS), me, 0); b < share(count(N, ROWS), me, 1); b++)
        pack_rows(l->x + b * ROWS * d, d, least(ROWS, N - b * ROWS), ROWS, d, l->rows, b);
    for (long b = b0; b < b1; b++) pack_rows(l->h0 + b * ROWS * d, d, least(ROWS, B - b * ROWS), ROWS, d, l->state, b);
    meet();
    Product p = {pairs, 4 * d, N, count(N, ROWS), l->rows, l->wx, l->gates, l->ld, l->bias, 0, 0};
    multiply(&p, 0, p.per, p0, p1);
    for (long t = 0; t < l->T; t++) {
        Product step = {pairs, 4 * d, B, blocks, l->state, l->wh, l->gates + t * B * l->ld, l->ld, NULL, 1, t % 2};
        multiply(&step, 0, blocks, p0, p1);
        meet();
        for (long b = b0; b < b1; b++) {
            long i = b * ROWS, some = least(ROWS, B - i);
            for (long r = i; r < i + some; r++) activate(l, t * B + r);
            pack_rows(l->y + (t * B + i) * d, d, some, ROWS, d, l->state, b);
        }
        meet();
    }
}

/* The gradient of a row's gates from those of its output and its cell, which becomes that of the cell before. */
static void differentiate(const Layer *l, long row) {
    long d = l->d, b = row % l->B;
    const float *gate = l->gates + row * l->ld, *cell = l->cells + row * d, *above = l->dy + row * d;
    const float *before = row < l->B ? l->c0 + row * d : cell - l->B * d;
    float *dg = l->dg + row * l->wide, *dh = l->dh + b * d, *dc = l->dc + b * d;
    for (long j = 0; j < d; j += LANES) {
        long n = d - j;
        const float *g = gate + j;
        Reals one = all(1), in = load(g, n), keep = load(g + d, n), new = load(g + 2 * d, n), open = load(g + 3 * d, n);
        Reals tc = hyperbolic(load(cell + j, n)), gh = load(above + j, n) + load(dh + j, n);
        Reals gc = gh * open * (one - tc * tc) + load(dc + j, n);
        save(dg + j, n, gc * new * (in * (one - in)));
        save(dg + d + j, n, gc * load(before + j, n) * (keep * (one - keep)));
        save(dg + 2 * d + j, n, gc * in * (one - new * new));
        save(dg + 3 * d + j, n, gh * tc * (open * (one - open)));
        save(dc + j, n, gc * keep);
    }
}

static void backward(void *job, Member me) {
    Layer *l = job;
    long d = l->d, B = l->B, T = l->T, N = T * B, blocks = count(B, ROWS), panels = count(d, COLUMNS), pairs = count(4 * d, 2);
    long p0 = share(panels, me, 0), p1 = share(panels, me, 1), b0 = share(blocks, me, 0), b1 = share(blocks, me, 1);
    long g0 = share(count(4 * d, ROWS), me, 0), g1 = share(count(4 * d, ROWS), me, 1);
    pack_columns(l->w_h, d, d, COLUMNS, 4 * d, l->wh, p0, p1);
    pack_columns(l->w_x, d, d, COLUMNS, 4 * d, l->wx, p0, p1);
    for (long t = T - 1; t >= 0; t--) {
        Packed now = {l->rows.at + t * blocks * ROWS * pairs, l->rows.scale + t * blocks * ROWS * count(4 * d, CHUNK)};
        for (long b = b0; b < b1; b++) {
            long i = b * ROWS, some = least(ROWS, B - i);
            for (long r = i; r < i + some; r++) differentiate(l, t * B + r);
            pack_rows(l->dg + (t * B + i) * l->wide, l->wide, some, ROWS, 4 * d, now, b);
        }
        meet();
        Product step = {pairs, d, B, blocks, now, l->wh, l->dh, d, NULL, 0, t % 2};
        if (t) multiply(&step, 0, blocks, p0, p1);
        meet();
    }
    Product p = {pairs, d, B, blocks, l->rows, l->wx, l->dx, d, NULL, 0, 0};
    multiply(&p, 0, T * blocks, p0, p1);
    long j0 = share(4 * d, me, 0), j1 = share(4 * d, me, 1);
    memset(l->d_bias + j0, 0, (j1 - j0) * 4);
    for (long i = 0; i < N; i++)
        for (long j = j0; j < j1; j++) l->d_bias[j] += l->dg[i * l->wide + j];
    meet(); /* the packed weights are no longer needed */
    long deep = count(N, 2);
    pack_columns(l->dg, l->wide, 4 * d, ROWS, N, l->turned, g0, g1);
    pack_columns(l->x, d, d, COLUMNS, N, l->wx, p0, p1);
    pack_columns(l->hs, d, d, COLUMNS, N, l->wh, p0, p1);
    meet();
    long all = count(4 * d, ROWS);
    Product by_x = {deep, d, 4 * d, all, l->turned, l->wx, l->d_wx, d, NULL, 0, 0}, by_h = {deep, d, 4 * d, all, l->turned, l->wh, l->d_wh, d, NULL, 0, 0};
    multiply(&by_x, g0, g1, 0, panels);
    multiply(&by_h, g0, g1, 0, panels);
}

/* y (T·B, d) from x (T·B, d). gates (T·B, ld) and cells (T·B, d) are kept for the gradient. Weights (4d, d): i, f, g, o. */
int int16_lstm(long threads, long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *bias,
               const float *h0, const float *c0, float *y, float *gates, long ld, float *cells) {
    Layer l = {.T = T, .B = B, .d = d, .ld = ld, .x = x, .w_x = w_x, .w_h = w_h, .bias = bias, .h0 = h0, .c0 = c0};
    l.y = y, l.gates = gates, l.cells = cells;
    l.wx = packed(4 * d, d), l.wh = packed(4 * d, d), l.rows = packed(T * B, d), l.state = packed(B, d);
    int ok = made(&l.wx) && made(&l.wh) && made(&l.rows) && made(&l.state);
    if (ok) together(forward, &l, threads);
    release(&l.wx), release(&l.wh), release(&l.rows), release(&l.state);
    return ok;
}

/* Gradients of a layer from dy: dx, d_wx, d_wh (4d, d), d_bias (4d). The state before the window is taken as given. */
int int16_lstm_gradient(long threads, long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *h0,
                        const float *c0, const float *y, const float *gates, long ld, const float *cells, const float *dy, float *dx,
                        float *d_wx, float *d_wh, float *d_bias) {
    long N = T * B, deep = 4 * d > N ? 4 * d : N;
    Layer l = {.T = T, .B = B, .d = d, .ld = ld, .wide = up(4 * d, LANES), .x = x, .w_x = w_x, .w_h = w_h, .h0 = h0, .c0 = c0, .dy = dy};
    l.y = (float *)y, l.gates = (float *)gates, l.cells = (float *)cells, l.dx = dx, l.d_wx = d_wx, l.d_wh = d_wh, l.d_bias = d_bias;
    l.dg = room(N * l.wide * 4), l.dh = room(B * d * 4), l.dc = room(B * d * 4), l.hs = room(N * d * 4);
    l.wx = packed(d, deep), l.wh = packed(d, deep), l.rows = packed(T * up(B, ROWS), 4 * d), l.turned = packed(4 * d, N);
    int ok = l.dg && l.dh && l.dc && l.hs && made(&l.wx) && made(&l.wh) && made(&l.rows) && made(&l.turned);
    if (ok) {
        memset(l.dh, 0, B * d * 4), memset(l.dc, 0, B * d * 4);
        memcpy(l.hs, h0, B * d * 4), memcpy(l.hs + B * d, y, (N - B) * d * 4);
        together(backward, &l, threads);
    }
    free(l.dg), free(l.dh), free(l.dc), free(l.hs), release(&l.wx), release(&l.wh), release(&l.rows), release(&l.turned);
    return ok;
}
