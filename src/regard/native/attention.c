// Attention of one query a head. A row has the same bits in any company and on any number of threads.
#include "kernels.h"

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

INLINE float product(const float *a, const float *b, long size) {
    vector sums = {0};
    long place = 0;
    for (; place + LANES <= size; place += LANES) sums += SEEN(a + place) * SEEN(b + place);
    float sum = total(sums);
    for (; place < size; place++) sum += a[place] * b[place];
    return sum;
}

// Where a head's keys or values are: that of a position `step` floats after that of the one before, and where
// they sit in rows, those `seat` floats apart.
typedef struct {
    const float *first;
    long step, seat;
} Held;

INLINE const float *at(Held held, const int32_t *seats, long place) {
    return held.first + place * held.step + (seats ? seats[place] * held.seat : 0);
}

// out = softmax(q K^T scale) V (Vaswani et al. 2017, equation 1). `seats` may be NULL.
INLINE void look(const float *query, Held keys, Held values, const int32_t *seats, long length, long d, float scale,
                 float *weights, float *out) {
    for (long place = 0; place < length; place++) weights[place] = product(query, at(keys, seats, place), d) * scale;
    softmax(weights, length);
    long feature = 0;
    for (; feature + LANES <= d; feature += LANES) {
        vector sum = {0};
        for (long place = 0; place < length; place++) sum += weights[place] * SEEN(at(values, seats, place) + feature);
        AT(out + feature) = sum;
    }
    for (; feature < d; feature++) {
        out[feature] = 0;
        for (long place = 0; place < length; place++) out[feature] += weights[place] * at(values, seats, place)[feature];
    }
}

// To a memory. query: rows of `query_row` floats; key, value: positions, `key_row` and `value_row` floats each, of all
// sequences one after the other; row i looks at `lengths[i]` of them from `starts[i]` on. out: rows x heads x d.
void attend_to_memory(const Heads *heads, const float *query, long query_row, const float *key, long key_row,
                      const float *value, long value_row, const int64_t *starts, const int64_t *lengths, float *weights,
                      float *out) {
    long d = heads->d, share = heads->share, count = heads->groups * share;
#pragma omp parallel for num_threads(heads->threads) if (heads->threads > 1)
    for (long row = 0; row < heads->rows; row++)
        for (long head = 0; head < count; head++) {
            Held keys = {key + starts[row] * key_row + head / share * d, key_row, 0};
            Held values = {value + starts[row] * value_row + head / share * d, value_row, 0};
            look(query + row * query_row + head * d, keys, values, 0, lengths[row], d, heads->scale,
                 weights + row * heads->room, out + (row * count + head) * d);
        }
}

// To what was said before and to this position, whose keys and values (rows of `key_row` and `value_row` floats) are
// kept first. keys, values: positions x seats x groups x d; row i has those of position p on seat `table[i][p]`, and
// its own of this position on seat i.
void attend_to_self(const Heads *heads, const float *query, long query_row, const float *key, long key_row, const float *value,
                    long value_row, float *keys, float *values, long seats, int32_t *table, long table_row, long position,
                    float *weights, float *out) {
    long d = heads->d, share = heads->share, count = heads->groups * share, width = heads->groups * d;
#pragma omp parallel for num_threads(heads->threads) if (heads->threads > 1)
    for (long row = 0; row < heads->rows; row++) {
        long place = (position * seats + row) * width;
        memcpy(keys + place, key + row * key_row, sizeof(float) * width);
        memcpy(values + place, value + row * value_row, sizeof(float) * width);
        table[row * table_row + position] = (int32_t)row;
        for (long head = 0; head < count; head++) {
            Held before = {keys + head / share * d, seats * width, width}, said = {values + head / share * d, seats * width, width};
            look(query + row * query_row + head * d, before, said, table + row * table_row, position + 1, d, heads->scale,
                 weights + row * heads->room, out + (row * count + head) * d);
        }
    }
}
