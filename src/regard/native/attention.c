// Attention of one query a head. A row has the same bits in any company and on any number of threads.
#include "kernels.h"

// SIDE: vectors of features that are mixed together. BLOCK: positions that all heads look at before they look at others,
// so that what lies near stays near.
enum { SIDE = 4, BLOCK = 32 };

// Scores -> weights, in place; `scores` has room up to a multiple of LANES.
INLINE void softmax(float *scores, long length) {
    long room = (length + LANES - 1) / LANES * LANES;
    for (long place = length; place < room; place++) scores[place] = -INFINITY;
    vector tops = (vector){0} - INFINITY, sums = {0};
    for (long place = 0; place < room; place += LANES) tops = larger(tops, SEEN(scores + place));
    float most = tops[0];
    for (int lane = 1; lane < LANES; lane++) most = tops[lane] > most ? tops[lane] : most;
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

// To `count` vectors of features, from `feature` on, what the values from `begin` to `end` add by their weights.
INLINE void add(int count, const float *weights, Held values, const int32_t *seats, long begin, long end, long feature, float *out) {
    vector sums[SIDE];
    for (int each = 0; each < count; each++) sums[each] = AT(out + feature + each * LANES);
    for (long place = begin; place < end; place++) {
        const float *value = at(values, seats, place) + feature;
        for (int each = 0; each < count; each++) sums[each] += weights[place] * SEEN(value + each * LANES);
    }
    for (int each = 0; each < count; each++) AT(out + feature + each * LANES) = sums[each];
}

// The same to all d features.
INLINE void mix(const float *weights, Held values, const int32_t *seats, long begin, long end, long d, float *out) {
    long feature = 0;
    for (; feature + SIDE * LANES <= d; feature += SIDE * LANES) add(SIDE, weights, values, seats, begin, end, feature, out);
    for (; feature + LANES <= d; feature += LANES) add(1, weights, values, seats, begin, end, feature, out);
    for (; feature < d; feature++)
        for (long place = begin; place < end; place++) out[feature] += weights[place] * at(values, seats, place)[feature];
}

// out = softmax(q K^T scale) V (Vaswani et al. 2017, equation 1) for all heads of a row. `seats` may be NULL.
INLINE void look(const Heads *heads, const float *query, Held keys, Held values, const int32_t *seats, long length,
                 float *weights, float *out) {
    long d = heads->d, count = heads->groups * heads->share, room = heads->room;
    memset(out, 0, sizeof(float) * count * d);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++)
            for (long place = begin; place < end; place++)
                weights[head * room + place] =
                    product(query + head * d, at(keys, seats, place) + head / heads->share * d, d) * heads->scale;
    }
    for (long head = 0; head < count; head++) softmax(weights + head * room, length);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++) {
            Held its = {values.first + head / heads->share * d, values.step, values.seat};
            mix(weights + head * room, its, seats, begin, end, d, out + head * d);
        }
    }
}

// To a memory. query: rows of `query_row` floats; key, value: positions, `key_row` and `value_row` floats each, of all
// sequences one after the other; row i looks at `lengths[i]` of them from `starts[i]` on. weights: threads x heads x their
// room. out: rows x heads x d.
void attend_to_memory(const Heads *heads, const float *query, long query_row, const float *key, long key_row,
                      const float *value, long value_row, const int64_t *starts, const int64_t *lengths, float *weights,
                      float *out) {
    long rows = heads->rows, count = heads->groups * heads->share;
    int threads = heads->threads;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            Held keys = {key + starts[row] * key_row, key_row, 0}, values = {value + starts[row] * value_row, value_row, 0};
            look(heads, query + row * query_row, keys, values, 0, lengths[row], weights + thread * count * heads->room,
                 out + row * count * heads->d);
        }
}

// To what was said before and to this position, whose keys and values (rows of `key_row` and `value_row` floats) are
// kept first. keys, values: positions x seats x groups x d; row i has those of position p on seat `table[i][p]`, and
// its own of this position on seat i. The rest as above.
void attend_to_self(const Heads *heads, const float *query, long query_row, const float *key, long key_row, const float *value,
                    long value_row, float *keys, float *values, long seats, int32_t *table, long table_row, long position,
                    float *weights, float *out) {
    long rows = heads->rows, count = heads->groups * heads->share, width = heads->groups * heads->d;
    int threads = heads->threads;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            long place = (position * seats + row) * width;
            memcpy(keys + place, key + row * key_row, sizeof(float) * width);
            memcpy(values + place, value + row * value_row, sizeof(float) * width);
            table[row * table_row + position] = (int32_t)row;
            Held before = {keys, seats * width, width}, said = {values, seats * width, width};
            look(heads, query + row * query_row, before, said, table + row * table_row, position + 1,
                 weights + thread * count * heads->room, out + row * count * heads->d);
        }
}
