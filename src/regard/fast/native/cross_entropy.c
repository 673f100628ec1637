// Cross-entropy over many classes and its gradient, while the logits of a few rows are in the cache.
#include "vectors.h"

// The largest logit of a row, and the mean of all.
INLINE void survey(const float *logits, long classes, float *top, float *mean) {
    vector most = (vector){0} - INFINITY, sums = {0};
    float sum = 0;
    long place = 0;
    for (; place + LANES <= classes; place += LANES) {
        most = larger(most, SEEN(logits + place));
        sums += SEEN(logits + place);
    }
    *top = most[0];
    for (int lane = 1; lane < LANES; lane++) *top = most[lane] > *top ? most[lane] : *top;
    for (; place < classes; place++) {
        *top = logits[place] > *top ? logits[place] : *top;
        sum += logits[place];
    }
    *mean = (sum + total(sums)) / classes;
}

// logits -> e^(logit - top), in place; returns their sum.
INLINE float exponentials(float *logits, long classes, float top) {
    vector sums = {0};
    long place = 0;
    for (; place + LANES <= classes; place += LANES) sums += AT(logits + place) = exponential(SEEN(logits + place) - top);
    float rest[LANES], sum = total(sums);
    for (int lane = 0; lane < LANES; lane++) rest[lane] = place + lane < classes ? logits[place + lane] - top : -INFINITY;
    AT(rest) = exponential(SEEN(rest));
    for (int lane = 0; place < classes; place++, lane++) sum += logits[place] = rest[lane];
    return sum;
}

// logits -> gradients of (1 - s) -log p(label) + s mean(-log p), in place. losses: for each row this value, and -log p(label).
void cross_entropy(float *logits, const int64_t *labels, long rows, long classes, float smoothing, float *losses, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        float *those = logits + row * classes, label = those[labels[row]], top, mean;
        survey(those, classes, &top, &mean);
        float sum = exponentials(those, classes, top), all = top + logf(sum), share = 1 / sum, even = smoothing / classes;
        losses[2 * row] = all - label + (smoothing ? smoothing * (label - mean) : 0);
        losses[2 * row + 1] = all - label;
        long place = 0;
        for (; place + LANES <= classes; place += LANES) AT(those + place) = SEEN(those + place) * share - even;
        for (; place < classes; place++) those[place] = those[place] * share - even;
        those[labels[row]] -= 1 - smoothing;
    }
}
