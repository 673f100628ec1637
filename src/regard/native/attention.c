// Attention of one query a head. A row has the same bits in any company and on any number of threads.
#include "vectors.h"

INLINE float product(const float *a, const float *b, long size) {
    vector sums = {0};
    long place = 0;
    for (; place + LANES <= size; place += LANES) sums += SEEN(a + place) * SEEN(b + place);
    float sum = total(sums);
    for (; place < size; place++) sum += a[place] * b[place];
    return sum;
}

// Scores -> weights, in place; `scores` has room up to a multiple of LANES.
INLINE void softmax(float *scores, long length) {
    float most = -INFINITY;
    for (long place = 0; place < length; place++) most = scores[place] > most ? scores[place] : most;
    long room = (length + LANES - 1) / LANES * LANES;
    for (long place = length; place < room; place++) scores[place] = -INFINITY;
    vector sums = {0};
    for (long place = 0; place < room; place += LANES) sums += AT(scores + place) = exponential(SEEN(scores + place) - most);
    float share = 1 / total(sums);
    for (long place = 0; place < room; place += LANES) AT(scores + place) *= share;
}

// One query a head that looks at all keys: out = softmax(q K^T scale + hidden) V (Vaswani et al. 2017, equation 1).
// query, out: rows x groups x share x d. key: a row and a group of it begin `key_row` and `key_group` floats after
// the one before, and are length x d; so with value. hidden: rows x length, 0 or -inf, or NULL. scores: rows x
// `room`, at least LANES - 1 more than length.
void attend(const float *query, const float *key, const float *value, const float *hidden, float *out, float *scores,
            long room, long rows, long groups, long share, long d, long length, long key_row, long key_group,
            long value_row, long value_group, float scale, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        float *weights = scores + row * room;
        for (long head = 0; head < groups * share; head++) {
            const float *keys = key + row * key_row + head / share * key_group;
            const float *values = value + row * value_row + head / share * value_group;
            const float *asked = query + (row * groups * share + head) * d;
            float *sum = out + (row * groups * share + head) * d;
            for (long place = 0; place < length; place++) {
                weights[place] = product(asked, keys + place * d, d) * scale;
                if (hidden) weights[place] += hidden[row * length + place];
            }
            softmax(weights, length);
            memset(sum, 0, sizeof(float) * d);
            for (long place = 0; place < length; place++)
                for (long feature = 0; feature < d; feature++) sum[feature] += weights[place] * values[place * d + feature];
        }
    }
}
