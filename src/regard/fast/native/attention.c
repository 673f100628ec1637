// Attention of one query a head. A row's result depends neither on its batch nor on the number of threads, to the bit.
#include "kernels.h"

// SIDE: vectors of features that are summed together. BLOCK: positions that all heads read before they read others, so that
// those stay in the processor's cache.
enum { SIDE = 4, BLOCK = 32 };

// Scores -> weights, in place; `scores` is allocated up to a multiple of LANES.
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

// Where a head's keys or values are in memory: positions are `step` floats apart; slots, if there are any, `slot` floats.
typedef struct {
    const float *first;
    long step, slot;
} Held;

INLINE const float *at(Held held, const int32_t *slots, long place) {
    return held.first + place * held.step + (slots ? slots[place] * held.slot : 0);
}

// Add the weighted values of positions `begin` to `end` to `count` vectors of features, from `feature` on.
INLINE void add(int count, const float *weights, Held values, const int32_t *slots, long begin, long end, long feature, float *out) {
    vector sums[SIDE];
    for (int each = 0; each < count; each++) sums[each] = AT(out + feature + each * LANES);
    for (long place = begin; place < end; place++) {
        const float *value = at(values, slots, place) + feature;
        for (int each = 0; each < count; each++) sums[each] += weights[place] * SEEN(value + each * LANES);
    }
    for (int each = 0; each < count; each++) AT(out + feature + each * LANES) = sums[each];
}

// The same for all d features.
INLINE void mix(const float *weights, Held values, const int32_t *slots, long begin, long end, long d, float *out) {
    long feature = 0;
    for (; feature + SIDE * LANES <= d; feature += SIDE * LANES) add(SIDE, weights, values, slots, begin, end, feature, out);
    for (; feature + LANES <= d; feature += LANES) add(1, weights, values, slots, begin, end, feature, out);
    for (; feature < d; feature++)
        for (long place = begin; place < end; place++) out[feature] += weights[place] * at(values, slots, place)[feature];
}

// out = softmax(q K^T scale) V (Vaswani et al. 2017, equation 1) for all heads of a row. `slots` may be NULL.
INLINE void attend(const Heads *heads, const float *query, Held keys, Held values, const int32_t *slots, long length,
                 float *weights, float *out) {
    long d = heads->d, count = heads->groups * heads->share, room = heads->room;
    memset(out, 0, sizeof(float) * count * d);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++)
            for (long place = begin; place < end; place++)
                weights[head * room + place] =
                    product(query + head * d, at(keys, slots, place) + head / heads->share * d, d) * heads->scale;
    }
    for (long head = 0; head < count; head++) softmax(weights + head * room, length);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++) {
            Held its = {values.first + head / heads->share * d, values.step, values.slot};
            mix(weights + head * room, its, slots, begin, end, d, out + head * d);
        }
    }
}

// Attention to a memory. query: rows of `query_row` floats; key, value: positions, `key_row` and `value_row` floats each, of all
// sequences concatenated; row i attends to `lengths[i]` of them from `starts[i]` on. weights: scratch of threads x heads x
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
            attend(heads, query + row * query_row, keys, values, 0, lengths[row], weights + thread * count * heads->room,
                 out + row * count * heads->d);
        }
}

// Self-attention to the earlier positions and to this one, whose keys and values (rows of `key_row` and `value_row`
// floats) are stored first. keys, values: positions x slots x groups x d; row i has those of position p in slot
// `table[i][p]`, and those of this position in slot i. The rest is as above.
void attend_to_self(const Heads *heads, const float *query, long query_row, const float *key, long key_row, const float *value,
                    long value_row, float *keys, float *values, long slots, int32_t *table, long table_row, long position,
                    float *weights, float *out) {
    long rows = heads->rows, count = heads->groups * heads->share, width = heads->groups * heads->d;
    int threads = heads->threads;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            long place = (position * slots + row) * width;
            memcpy(keys + place, key + row * key_row, sizeof(float) * width);
            memcpy(values + place, value + row * value_row, sizeof(float) * width);
            table[row * table_row + position] = (int32_t)row;
            Held all_keys = {keys, slots * width, width}, all_values = {values, slots * width, width};
            attend(heads, query + row * query_row, all_keys, all_values, table + row * table_row, position + 1,
                 weights + thread * count * heads->room, out + row * count * heads->d);
        }
}
