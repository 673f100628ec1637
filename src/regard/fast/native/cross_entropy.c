// Cross-entropy over many classes and its gradient, while the logits of a few rows are in the cache.
#include "vectors.h"

// The largest logit of a row, and the mean of all.
INLINE void maximum_and_mean(const float *logits, long classes, float *maximum, float *mean) {
    vector maxima = (vector){0} - INFINITY, sums = {0};
    float sum = 0;
    long place = 0;
    for (; place + LANES <= classes; place += LANES) {
        maxima = larger(maxima, LOAD(logits + place));
        sums += LOAD(logits + place);
    }
    *maximum = maxima[0];
    for (int lane = 1; lane < LANES; lane++) *maximum = maxima[lane] > *maximum ? maxima[lane] : *maximum;
    for (; place < classes; place++) {
        *maximum = logits[place] > *maximum ? logits[place] : *maximum;
        sum += logits[place];
    }
    *mean = (sum + total(sums)) / classes;
}

// logits -> e^(logit - maximum), in place; returns their sum.
INLINE float exponentials(float *logits, long classes, float maximum) {
    vector sums = {0};
    long place = 0;
    for (; place + LANES <= classes; place += LANES) sums += AT(logits + place) = exponential(LOAD(logits + place) - maximum);
    float rest[LANES], sum = total(sums);
    for (int lane = 0; lane < LANES; lane++) rest[lane] = place + lane < classes ? logits[place + lane] - maximum : -INFINITY;
    AT(rest) = exponential(LOAD(rest));
    for (int lane = 0; place < classes; place++, lane++) sum += logits[place] = rest[lane];
    return sum;
}

// logits -> gradients of (1 - s) -log p(label) + s mean(-log p), in place. losses: for each row this value, and -log p(label).
void cross_entropy(float *logits, const int64_t *labels, long rows, long classes, float smoothing, float *losses, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        float *those = logits + row * classes, label = those[labels[row]], maximum, mean;
        maximum_and_mean(those, classes, &maximum, &mean);
        float sum = exponentials(those, classes, maximum), all = maximum + logf(sum), inverse = 1 / sum, even = smoothing / classes;
        losses[2 * row] = all - label + (smoothing ? smoothing * (label - mean) : 0);
        losses[2 * row + 1] = all - label;
        long place = 0;
        for (; place + LANES <= classes; place += LANES) AT(those + place) = LOAD(those + place) * inverse - even;
        for (; place < classes; place++) those[place] = those[place] * inverse - even;
        those[labels[row]] -= 1 - smoothing;
    }
}
