/* An LSTM layer as a whole: at 20 streams its recurrent products are bound by reading the weights. */

static __m512 sigmoid(__m512 x) {
    __m512 one = _mm512_set1_ps(1);
    return _mm512_div_ps(one, _mm512_add_ps(one, exponential(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

static __m512 hyperbolic(__m512 x) { /* tanh x = 2 σ(2x) - 1 */
    return _mm512_fmsub_ps(_mm512_set1_ps(2), sigmoid(_mm512_add_ps(x, x)), _mm512_set1_ps(1));
}

/* y (T·B, d) from x (T·B, d). gates (T·B, ld) and cells (T·B, d) are kept for the gradient. Weights (4d, d): i, f, g, o. */
int amx_lstm(long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *bias, const float *h0,
             const float *c0, float *y, float *gates, long ld, float *cells) {
    long width = up(d, 32), kt = width / 32;
    bf16 *a = room(up(T * B, 32) * width * 2), *h = room(up(B, 32) * width * 2);
    bf16 *wx = room(up(4 * d, 32) * width * 2 + 16384), *wh = room(up(4 * d, 32) * width * 2 + 16384);
    int ok = a && h && wx && wh;
    if (ok) {
        rows_of(x, d, T * B, d, a, width);
        rows_of(h0, d, B, d, h, width);
        panels_of_transposed(w_x, d, d, 4 * d, wx);
        panels_of_transposed(w_h, d, d, 4 * d, wh);
        product(T * B, 4 * d, kt, a, width, wx, gates, ld, bias, 0);
        for (long t = 0; t < T; t++) {
            float *now = gates + t * B * ld, *c = cells + t * B * d, *out = y + t * B * d;
            const float *before = t ? c - B * d : c0;
            product_of(B, 4 * d, kt, h, width, 32, wh, now, ld, NULL, 1, t % 2); /* what was read last is still in the cache */
            for (long b = 0; b < B; b++)
                for (long j = 0; j < d; j += 16) {
                    __mmask16 m = first(d - j);
                    float *g = now + b * ld + j;
                    __m512 in = sigmoid(_mm512_maskz_loadu_ps(m, g)), keep = sigmoid(_mm512_maskz_loadu_ps(m, g + d));
                    __m512 new = hyperbolic(_mm512_maskz_loadu_ps(m, g + 2 * d)), open = sigmoid(_mm512_maskz_loadu_ps(m, g + 3 * d));
                    __m512 cell = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(m, before + b * d + j), _mm512_mul_ps(in, new));
                    _mm512_mask_storeu_ps(g, m, in);
                    _mm512_mask_storeu_ps(g + d, m, keep);
                    _mm512_mask_storeu_ps(g + 2 * d, m, new);
                    _mm512_mask_storeu_ps(g + 3 * d, m, open);
                    _mm512_mask_storeu_ps(c + b * d + j, m, cell);
                    _mm512_mask_storeu_ps(out + b * d + j, m, _mm512_mul_ps(open, hyperbolic(cell)));
                }
            rows_of(out, d, B, d, h, width);
        }
    }
    free(a), free(h), free(wx), free(wh);
    return ok;
}

/* Gradients of a layer from dy: dx, d_wx, d_wh (4d, d), d_bias (4d). The state before the window is taken as given. */
int amx_lstm_gradient(long T, long B, long d, const float *x, const float *w_x, const float *w_h, const float *h0, const float *c0,
                      const float *y, const float *gates, long ld, const float *cells, const float *dy, float *dx, float *d_wx,
                      float *d_wh, float *d_bias) {
    long N = T * B, wide = up(4 * d, 32), deep = up(N, 32);
    bf16 *dg = room(deep * wide * 2), *turned = room(wide * deep * 2), *p = room(deep * up(d, 32) * 2 + 16384);
    bf16 *wx = room(wide * up(d, 32) * 2 + 16384), *wh = room(wide * up(d, 32) * 2 + 16384);
    float *dh = room(B * d * 4), *dc = room(B * d * 4), *row = room(wide * 4), *hs = room(N * d * 4);
    int ok = dg && turned && p && wx && wh && dh && dc && row && hs;
    if (ok) {
        panels_of(w_h, d, 4 * d, d, wh);
        panels_of(w_x, d, 4 * d, d, wx);
        memset(dh, 0, B * d * 4), memset(dc, 0, B * d * 4), memset(row, 0, wide * 4), memset(d_bias, 0, 4 * d * 4);
        for (long t = T - 1; t >= 0; t--) {
            const float *before = t ? cells + (t - 1) * B * d : c0;
            for (long b = 0; b < B; b++) {
                const float *g = gates + (t * B + b) * ld, *cell = cells + (t * B + b) * d, *up_y = dy + (t * B + b) * d;
                for (long j = 0; j < d; j += 16) {
                    __mmask16 m = first(d - j);
                    __m512 one = _mm512_set1_ps(1), in = _mm512_maskz_loadu_ps(m, g + j), keep = _mm512_maskz_loadu_ps(m, g + d + j);
                    __m512 new = _mm512_maskz_loadu_ps(m, g + 2 * d + j), open = _mm512_maskz_loadu_ps(m, g + 3 * d + j);
                    __m512 tc = hyperbolic(_mm512_maskz_loadu_ps(m, cell + j));
                    __m512 gh = _mm512_add_ps(_mm512_maskz_loadu_ps(m, up_y + j), _mm512_maskz_loadu_ps(m, dh + b * d + j));
                    __m512 gc = _mm512_fmadd_ps(_mm512_mul_ps(gh, open), _mm512_fnmadd_ps(tc, tc, one), _mm512_maskz_loadu_ps(m, dc + b * d + j));
                    __m512 d_in = _mm512_mul_ps(_mm512_mul_ps(gc, new), _mm512_mul_ps(in, _mm512_sub_ps(one, in)));
                    __m512 d_keep = _mm512_mul_ps(_mm512_mul_ps(gc, _mm512_maskz_loadu_ps(m, before + b * d + j)), _mm512_mul_ps(keep, _mm512_sub_ps(one, keep)));
                    __m512 d_new = _mm512_mul_ps(_mm512_mul_ps(gc, in), _mm512_fnmadd_ps(new, new, one));
                    __m512 d_open = _mm512_mul_ps(_mm512_mul_ps(gh, tc), _mm512_mul_ps(open, _mm512_sub_ps(one, open)));
                    __m512 parts[4] = {d_in, d_keep, d_new, d_open};
                    for (int q = 0; q < 4; q++) {
                        _mm512_mask_storeu_ps(row + q * d + j, m, parts[q]);
                        float *sum = d_bias + q * d + j;
                        _mm512_mask_storeu_ps(sum, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, sum), parts[q]));
                    }
                    _mm512_mask_storeu_ps(dc + b * d + j, m, _mm512_mul_ps(gc, keep));
                }
                rows_of(row, wide, 1, wide, dg + (t * B + b) * wide, wide);
            }
            if (t) product(B, d, wide / 32, dg + t * B * wide, wide, wh, dh, d, NULL, 0);
        }
        product(N, d, wide / 32, dg, wide, wx, dx, d, NULL, 0);
        transpose(dg, wide, N, 4 * d, turned, deep);
        panels_of(x, d, N, d, p);
        product(4 * d, d, deep / 32, turned, deep, p, d_wx, d, NULL, 0);
        memcpy(hs, h0, B * d * 4), memcpy(hs + B * d, y, (N - B) * d * 4);
        panels_of(hs, d, N, d, p);
        product(4 * d, d, deep / 32, turned, deep, p, d_wh, d, NULL, 0);
    }
    free(dg), free(turned), free(p), free(wx), free(wh), free(dh), free(dc), free(row), free(hs);
    return ok;
}
