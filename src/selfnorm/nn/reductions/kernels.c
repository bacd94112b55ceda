/* Reductions over scores (n, V): log-sum-exp, mean score, largest words, and the exact scores of these for estimates of log Z. Vectors are those of gcc and clang, on any processor; one thread. Each function returns 0 where memory is short. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 1024 /* scores from which a threshold is estimated */
#define LANES 8     /* numbers of a vector */
#define BLOCK 32    /* numbers handled side by side: four vectors */
#define PIECE 4096  /* numbers whose sum is float32; the sum of these sums is float64 */

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Whole __attribute__((vector_size(4 * LANES), aligned(4)));

static Floats at(const float *x) { return *(const Floats *)x; }

static float sum_of(Floats x) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }

typedef struct {
    float score;
    int32_t word;
} Word;

/* Move the k largest of n to the front. None may be nan. */
static void select_largest(Word *a, long n, long k) {
    long low = 0, high = n - 1;
    while (low < high) {
        float x = a[low].score, y = a[(low + high) / 2].score, z = a[high].score;
        float pivot = x > y ? (y > z ? y : (x > z ? z : x)) : (x > z ? x : (y > z ? z : y));
        long i = low, j = high;
        while (i <= j) {
            while (a[i].score > pivot) i++;
            while (a[j].score < pivot) j--;
            if (i <= j) {
                Word one = a[i];
                a[i++] = a[j], a[j--] = one;
            }
        }
        if (k <= j)
            high = j;
        else if (k > i)
            low = i;
        else
            return;
    }
}

/* The scores of at least `least`, and their words; returns how many. Blocks without any are passed over. */
static long collect(const float *m, long V, float least, Word *out) {
    long n = 0;
    for (long from = 0; from < V; from += BLOCK) {
        long to = from + BLOCK < V ? from + BLOCK : V;
        if (to - from == BLOCK) {
            const float *p = m + from;
            Whole found = (at(p) >= least) | (at(p + 8) >= least) | (at(p + 16) >= least) | (at(p + 24) >= least);
            int64_t any[4];
            memcpy(any, &found, sizeof any);
            if (!(any[0] | any[1] | any[2] | any[3])) continue;
        }
        for (long w = from; w < to; w++) {
            out[n] = (Word){m[w], w};
            n += m[w] >= least;
        }
    }
    return n;
}

/* A score that about `wanted` of a row's scores reach: found among every `stride`-th of them. -inf if all may be needed. */
static float threshold(const float *m, long V, long stride, double wanted, Word *room) {
    double rank = wanted / stride;
    long n = 0, k = (long)(rank + 3 * sqrt(rank) + 3);
    for (long w = stride / 2; w < V; w += stride)
        if (m[w] == m[w]) room[n++] = (Word){m[w], w};
    if (k >= n) return -INFINITY;
    select_largest(room, n, k);
    float least = room[0].score;
    for (long i = 1; i < k; i++) least = room[i].score < least ? room[i].score : least;
    return least;
}

/* words (n, top): those with the largest of the scores m (n, V), in no particular order. top is at most V. */
int top_words(long n, long V, long top, const float *m, int64_t *words) {
    Word *room = malloc((V + 1) * sizeof(Word));
    if (!room) return 0;
    long stride = V / SAMPLE > 1 ? V / SAMPLE : 1;
    for (long row = 0; row < n; row++) {
        const float *scores = m + row * V;
        int64_t *out = words + row * top;
        long found = 0;
        float least = 0;
        for (double wanted = top; found < top; wanted *= 2) {
            least = threshold(scores, V, stride, wanted, room);
            found = collect(scores, V, least, room);
            if (least == -INFINITY) break;
        }
        if (found > top) select_largest(room, found, top), found = top;
        for (long i = 0; i < found; i++) out[i] = room[i].word;
        for (long w = 0; found < top; w++) /* only nan is left */
            if (scores[w] != scores[w]) out[found++] = w;
    }
    free(room);
    return 1;
}

static float dot(const float *a, const float *b, long d) {
    Floats p = {0}, q = p, r = p, t = p;
    long k = 0;
    for (; k + BLOCK <= d; k += BLOCK) {
        p += at(a + k) * at(b + k), q += at(a + k + 8) * at(b + k + 8);
        r += at(a + k + 16) * at(b + k + 16), t += at(a + k + 24) * at(b + k + 24);
    }
    float total = sum_of((p + q) + (r + t));
    for (; k < d; k++) total += a[k] * b[k];
    return total;
}

/* scores (n, top) = rows (V, d) of each context's own words · c (n, d) + bias (V). The rows are taken in the order of their
   words, so that each is read once, whatever number of contexts has it. */
int row_scores(long n, long V, long d, long top, const float *rows, const float *bias, const float *c, const int64_t *words,
               float *scores) {
    long all = n * top;
    int64_t *start = calloc(V + 1, sizeof(int64_t)), *order = malloc((all + 1) * sizeof(int64_t));
    int ok = start && order;
    if (ok) {
        for (long i = 0; i < all; i++) start[words[i] + 1]++;
        for (long w = 0; w < V; w++) start[w + 1] += start[w];
        for (long i = 0; i < all; i++) order[start[words[i]]++] = i;
        for (long e = 0; e < all; e++) {
            long i = order[e], w = words[i];
            scores[i] = dot(rows + w * d, c + i / top * d, d) + bias[w];
        }
    }
    free(start), free(order);
    return ok;
}

/* x, or -87 where it is less: e^-87 is the smallest number that is not rounded coarsely. nan stays nan. */
static Floats at_least_lowest(Floats x) {
    Floats lowest = (Floats){0} - 87.0f;
    Whole low = x < lowest;
    return (Floats)(((Whole)lowest & low) | ((Whole)x & ~low));
}

/* e^x for x from -87 to 0 */
static Floats exponential(Floats x) {
    Floats n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* the nearest whole number */
    Floats r = x - n * 0.693359375f + n * 2.12194440e-4f, p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f, p = p * r + 4.1665795894e-2f, p = p * r + 1.6666665459e-1f, p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return p * (Floats)((__builtin_convertvector(n, Whole) + 127) << 23);
}

static Floats larger(Floats x, Floats y) {
    Whole first = x > y;
    return (Floats)(((Whole)x & first) | ((Whole)y & ~first));
}

/* The largest of n scores, not counting nan. */
static float largest(const float *m, long n) {
    float best = -INFINITY;
    long w = 0;
    if (n >= BLOCK) {
        Floats p = (Floats){0} - INFINITY, q = p, r = p, t = p;
        for (; w + BLOCK <= n; w += BLOCK) {
            p = larger(at(m + w), p), q = larger(at(m + w + 8), q);
            r = larger(at(m + w + 16), r), t = larger(at(m + w + 24), t);
        }
        p = larger(larger(p, q), larger(r, t));
        for (int j = 0; j < LANES; j++) best = p[j] > best ? p[j] : best;
    }
    for (; w < n; w++) best = m[w] > best ? m[w] : best;
    return best;
}

typedef struct {
    double sum, weighted;
} Sums;

/* Σ e^x and, if wanted, Σ e^x·x over x = m - best of n scores; x below -87 counts as -87. */
static Sums exponentials(const float *m, long n, float best, int wanted) {
    Sums all = {0, 0};
    for (long from = 0; from < n; from += PIECE) {
        long to = from + PIECE < n ? from + PIECE : n, w = from;
        Floats p = {0}, q = p, r = p, t = p;
        for (; w + LANES * 2 <= to; w += LANES * 2) {
            Floats x = at_least_lowest(at(m + w) - best), y = at_least_lowest(at(m + w + LANES) - best);
            Floats e = exponential(x), f = exponential(y);
            p += e, q += f;
            if (wanted) r += e * x, t += f * y;
        }
        all.sum += sum_of(p + q), all.weighted += sum_of(r + t);
        for (; w < to; w++) {
            float x = m[w] - best < -87.0f ? -87.0f : m[w] - best, e = expf(x);
            all.sum += e, all.weighted += e * x;
        }
    }
    return all;
}

/* log_z (n) = log Σ e^m over the scores m (n, V) after those of `words` (n, top) are replaced by `exact`, which changes m. If
   `mean` (n) is not NULL it becomes Σ p·m for p = e^m / Σ e^m. */
int log_sums(long n, long V, long top, float *m, const int64_t *words, const float *exact, float *log_z, float *mean) {
    for (long row = 0; row < n; row++) {
        float *scores = m + row * V;
        for (long i = 0; i < top; i++) scores[words[row * top + i]] = exact[row * top + i];
        float best = largest(scores, V);
        if (isinf(best)) { /* +inf, or no score above -inf; nan if there is one */
            log_z[row] = best;
            for (long w = 0; w < V; w++)
                if (scores[w] != scores[w]) log_z[row] = NAN;
            if (mean) mean[row] = log_z[row] < 0 ? 0 : NAN;
        } else {
            Sums found = exponentials(scores, V, best, mean != NULL);
            log_z[row] = best + log(found.sum);
            if (mean) mean[row] = best + found.weighted / found.sum;
        }
    }
    return 1;
}

/* m (n, V) = sums (n, V) · scale (n) · row_scale (V) + offset (V) */
int scaled(long n, long V, const int32_t *sums, const float *scale, const float *row_scale, const float *offset, float *m) {
    for (long row = 0; row < n; row++)
        for (long w = 0; w < V; w++) m[row * V + w] = (float)sums[row * V + w] * scale[row] * row_scale[w] + offset[w];
    return 1;
}
