// Attention for decoding: one query per head. A row's result depends neither on its batch nor on the number of threads, to the bit.
#include "kernels.h"

// UNROLL: vectors of features that are accumulated in registers in one pass. BLOCK: positions that all heads process before the
// next block, so that its keys and values stay in the cache.
enum { UNROLL = 4, BLOCK = 32 };

// Scores -> weights, in place; `scores` is allocated up to a multiple of LANES.
INLINE void softmax(float *scores, long length) {
    long padded = (length + LANES - 1) / LANES * LANES;
    for (long position = length; position < padded; position++) scores[position] = -INFINITY;
    vector maxima = (vector){0} - INFINITY, sums = {0};
    for (long position = 0; position < padded; position += LANES) maxima = larger(maxima, LOAD(scores + position));
    float maximum = maxima[0];
    for (int lane = 1; lane < LANES; lane++) maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
    for (long position = 0; position < padded; position += LANES)
        sums += AT(scores + position) = exponential(LOAD(scores + position) - maximum);
    float inverse = 1 / total(sums);
    for (long position = 0; position < padded; position += LANES) AT(scores + position) *= inverse;
}

INLINE float dot(const float *a, const float *b, long size) {
    vector sums = {0};
    long feature = 0;
    for (; feature + LANES <= size; feature += LANES) sums += LOAD(a + feature) * LOAD(b + feature);
    float sum = total(sums);
    for (; feature < size; feature++) sum += a[feature] * b[feature];
    return sum;
}

// The keys or values of a head, a row for each position. Rows of neighbouring positions are `position_stride` floats apart, and
// those of neighbouring slots `slot_stride`, which is 0 without slots.
typedef struct {
    const float *first;
    long position_stride, slot_stride;
} StridedRows;

// `slot_of`: the slot of each position, or NULL.
INLINE const float *row_at(StridedRows rows, const int32_t *slot_of, long position) {
    return rows.first + position * rows.position_stride + (slot_of ? slot_of[position] * rows.slot_stride : 0);
}

// out += the weighted values of positions `begin` to `end`, for `count` vectors of features from `feature` on.
INLINE void add(int count, const float *weights, StridedRows values, const int32_t *slot_of, long begin, long end, long feature,
                float *out) {
    vector sums[UNROLL];
    for (int each = 0; each < count; each++) sums[each] = AT(out + feature + each * LANES);
    for (long position = begin; position < end; position++) {
        const float *value = row_at(values, slot_of, position) + feature;
        for (int each = 0; each < count; each++) sums[each] += weights[position] * LOAD(value + each * LANES);
    }
    for (int each = 0; each < count; each++) AT(out + feature + each * LANES) = sums[each];
}

// out += the weighted values of positions `begin` to `end`, for all d features.
INLINE void mix(const float *weights, StridedRows values, const int32_t *slot_of, long begin, long end, long d, float *out) {
    long feature = 0;
    for (; feature + UNROLL * LANES <= d; feature += UNROLL * LANES) add(UNROLL, weights, values, slot_of, begin, end, feature, out);
    for (; feature + LANES <= d; feature += LANES) add(1, weights, values, slot_of, begin, end, feature, out);
    for (; feature < d; feature++)
        for (long position = begin; position < end; position++)
            out[feature] += weights[position] * row_at(values, slot_of, position)[feature];
}

// out = softmax(q K^T scale) V (Vaswani et al. 2017, equation 1) for all heads of a row. `slot_of` may be NULL.
INLINE void attend(const Heads *heads, const float *query, StridedRows keys, StridedRows values, const int32_t *slot_of,
                   long length, float *weights, float *out) {
    long d = heads->d, count = heads->groups * heads->queries_per_group, row = heads->weights_row;
    memset(out, 0, sizeof(float) * count * d);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++)
            for (long position = begin; position < end; position++)
                weights[head * row + position] =
                    dot(query + head * d, row_at(keys, slot_of, position) + head / heads->queries_per_group * d, d) * heads->scale;
    }
    for (long head = 0; head < count; head++) softmax(weights + head * row, length);
    for (long begin = 0; begin < length; begin += BLOCK) {
        long end = begin + BLOCK < length ? begin + BLOCK : length;
        for (long head = 0; head < count; head++) {
            StridedRows of_head = {values.first + head / heads->queries_per_group * d, values.position_stride, values.slot_stride};
            mix(weights + head * row, of_head, slot_of, begin, end, d, out + head * d);
        }
    }
}

// Attention to a memory. query: rows of `query_row` floats; key, value: positions, `key_row` and `value_row` floats each, of all
// sequences concatenated; row i attends to `lengths[i]` of them from `starts[i]` on. weights: scratch of threads x heads x
// weights_row. out: rows x heads x d.
void attend_to_memory(const Heads *heads, const float *query, long query_row, const float *key, long key_row,
                      const float *value, long value_row, const int64_t *starts, const int64_t *lengths, float *weights,
                      float *out) {
    long rows = heads->rows, count = heads->groups * heads->queries_per_group;
    int threads = heads->threads;
    PARALLEL(threads, for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            StridedRows keys = {key + starts[row] * key_row, key_row, 0};
            StridedRows values = {value + starts[row] * value_row, value_row, 0};
            attend(heads, query + row * query_row, keys, values, 0, lengths[row], weights + thread * count * heads->weights_row,
                   out + row * count * heads->d);
        })
}

// Self-attention of each row to its earlier positions, from `begins[i]` on, and to its current one, `positions[i]`, whose keys and
// values (rows of `key_row` and `value_row` floats) are stored first. keys, values: slots x groups x d; row i has those of its
// position p in slot `table[i][p]`, and those of the current position in `slots[i]`, which is entered in the table. The other arguments
// are those of attend_to_memory.
void attend_to_self(const Heads *heads, const float *query, long query_row, const float *key, long key_row, const float *value,
                    long value_row, float *keys, float *values, int32_t *table, long table_row, const int32_t *slots,
                    const int64_t *begins, const int64_t *positions, float *weights, float *out) {
    long rows = heads->rows, count = heads->groups * heads->queries_per_group, width = heads->groups * heads->d;
    StridedRows all_keys = {keys, 0, width}, all_values = {values, 0, width};
    int threads = heads->threads;
    PARALLEL(threads, for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            int32_t *slot_of = table + row * table_row;
            memcpy(keys + slots[row] * width, key + row * key_row, sizeof(float) * width);
            memcpy(values + slots[row] * width, value + row * value_row, sizeof(float) * width);
            slot_of[positions[row]] = slots[row];
            attend(heads, query + row * query_row, all_keys, all_values, slot_of + begins[row], positions[row] + 1 - begins[row],
                   weights + thread * count * heads->weights_row, out + row * count * heads->d);
        })
}
