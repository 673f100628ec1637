// Attention for training: many queries per head, and the gradients. For short sentences a BLAS library is slow on such small
// products. A head is computed by one thread, so results do not depend on the number of threads. Keys at the end that a mask
// forbids to a tile of queries and to all before it, as a causal mask does, are left out: their weights are 0.
#include "vectors.h"

enum { ROWS = 8 }; // of a tile, whose sums fit into the registers

// A tensor whose rows are contiguous: the strides of batch, head and position.
typedef struct {
    float *first;
    long batch, head, position;
} View;

// The first row of a head.
INLINE float *head_at(View view, long batch, long head) { return view.first + batch * view.batch + head * view.head; }

// What all heads have in common. Each group of keys is shared by `heads_per_group` neighbouring heads.
typedef struct {
    View query, key, value, out; // in the backward pass `out` is its gradient
    const uint8_t *mask;         // or NULL; 1: may attend
    long mask_batch, mask_head, mask_query;
    const int16_t *bits; // or NULL: batch x heads x queries x keys; below `dropped` a weight is dropped
    float *weights;      // batch x heads x queries x padded_keys; dropped weights are negative
    int32_t *reach;      // batch x heads x tiles: the number of keys before those that are left out
    long batch, groups, heads_per_group, queries, keys, padded_keys, d; // padded_keys: at least the keys, a multiple of LANES
    float scale, kept; // kept: 1 / (1 - dropout)
    int dropped, threads;
    float *scratch; // one part for each thread
    long part;
} Attention;

int lanes(void) { return LANES; }

int tile_rows(void) { return ROWS; }

// out (+)= A B for `count` rows (a compile-time constant) and `wide` vectors of columns; element (row, i) of A is
// a[row * a_row + i * a_inner].
INLINE void tile(int count, int wide, const float *a, long a_row, long a_inner, const float *b, long b_row, float *out,
                 long out_row, long inner, int add) {
    vector sums[ROWS][2];
    for (int row = 0; row < count; row++)
        for (int side = 0; side < wide; side++)
            sums[row][side] = add ? LOAD(out + row * out_row + side * LANES) : (vector){0};
    for (long i = 0; i < inner; i++, b += b_row, a += a_inner) {
        vector left = LOAD(b), right = wide > 1 ? LOAD(b + LANES) : left;
        for (int row = 0; row < count; row++) {
            sums[row][0] += left * a[row * a_row];
            if (wide > 1) sums[row][1] += right * a[row * a_row];
        }
    }
    for (int row = 0; row < count; row++)
        for (int side = 0; side < wide; side++) AT(out + row * out_row + side * LANES) = sums[row][side];
}

// The height of the next tile, of `tiles` that are almost equally high.
INLINE long height(long rows, long tiles) { return (rows + tiles - 1) / tiles; }

INLINE long tiles_of(long rows) { return (rows + ROWS - 1) / ROWS; }

#define TILE(count)                                                                                                    \
    case count:                                                                                                        \
        for (; column + 2 * LANES <= columns; column += 2 * LANES)                                                     \
            tile(count, 2, a, a_row, a_inner, b + column, b_row, out + column, out_row, inner, add);                   \
        if (column < columns) tile(count, 1, a, a_row, a_inner, b + column, b_row, out + column, out_row, inner, add); \
        break;

// out (+)= A B; `columns` is a multiple of LANES. Tiles have almost equal heights.
static void multiply(const float *a, long a_row, long a_inner, const float *b, long b_row, float *out, long out_row, long rows,
                     long inner, long columns, int add) {
    for (long tiles = tiles_of(rows); rows; tiles--) {
        long column = 0, count = height(rows, tiles);
        switch (count) { TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) }
        rows -= count, a += count * a_row, out += count * out_row;
    }
}

// Rows of d features (a multiple of LANES) -> d rows of `padded` columns, the spare ones zero.
static void transpose(const float *from, long step, long rows, long d, long padded, float *to) {
    for (long first = 0; first < d; first += LANES, from += LANES, to += LANES * padded) {
        for (long row = 0; row < rows; row++)
            for (long lane = 0; lane < LANES; lane++) to[lane * padded + row] = from[row * step + lane];
        for (long row = rows; row < padded; row++)
            for (long lane = 0; lane < LANES; lane++) to[lane * padded + row] = 0;
    }
}

// Softmax of scores in place; 0 where `mask` (or NULL) forbids attention.
INLINE void softmax(float *scores, const uint8_t *mask, float scale, long keys, long padded) {
    vector maxima = (vector){0} - INFINITY, sums = {0};
    if (mask)
        for (long key = 0; key < keys; key++) scores[key] = mask[key] ? scores[key] : -INFINITY;
    for (long key = keys; key < padded; key++) scores[key] = -INFINITY;
    for (long key = 0; key < padded; key += LANES) maxima = larger(maxima, LOAD(scores + key));
    float maximum = maxima[0];
    for (int lane = 1; lane < LANES; lane++) maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
    if (maximum == -INFINITY) maximum = 0; // may attend to nothing
    for (long key = 0; key < padded; key += LANES) sums += AT(scores + key) = exponential((LOAD(scores + key) - maximum) * scale);
    float sum = total(sums), inverse = sum == 0 ? 0 : 1 / sum;
    for (long key = 0; key < padded; key += LANES) AT(scores + key) *= inverse;
}

// Negates the weights that are dropped; `left` gets the weights after dropout.
INLINE void drop(float *weights, const int16_t *bits, int dropped, float kept, long keys, long padded, float *left) {
    for (long key = 0; key < keys; key++) {
        int stays = bits[key] >= dropped;
        left[key] = stays ? weights[key] * kept : 0;
        weights[key] = stays ? weights[key] : -weights[key];
    }
    for (long key = keys; key < padded; key++) left[key] = 0;
}

INLINE long padded_to_lanes(long count) { return (count + LANES - 1) / LANES * LANES; }

// The number of keys up to the last one that a query may attend to, or `least`.
INLINE long reach_of(const uint8_t *mask, long keys, long least) {
    uint64_t eight = 0;
    for (; keys - 8 >= least; keys -= 8) {
        memcpy(&eight, mask + keys - 8, 8);
        if (eight) break;
    }
    while (keys > least && !mask[keys - 1]) keys--;
    return keys;
}

static void forward_head(const Attention *all, long batch, long head, const float *keys, float *left) {
    long place = batch * all->groups * all->heads_per_group + head, row = place * all->queries, padded = all->padded_keys;
    long tiles = tiles_of(all->queries), reach = 0;
    int32_t *reaches = all->reach + place * tiles;
    const uint8_t *mask = all->mask ? all->mask + batch * all->mask_batch + head * all->mask_head : 0;
    for (long first = 0, count; first < all->queries; first += count, tiles--) {
        count = height(all->queries - first, tiles);
        for (long query = first; query < first + count; query++)
            reach = mask ? reach_of(mask + query * all->mask_query, all->keys, reach) : all->keys;
        *reaches++ = reach;
        float *weights = all->weights + (row + first) * padded, *mixed = weights;
        long wide = padded_to_lanes(reach);
        multiply(head_at(all->query, batch, head) + first * all->query.position, all->query.position, 1, keys, padded, weights,
                 padded, count, all->d, wide, 0);
        for (long query = 0; query < count; query++) {
            softmax(weights + query * padded, mask ? mask + (first + query) * all->mask_query : 0, all->scale, reach, wide);
            if (all->bits)
                drop(weights + query * padded, all->bits + (row + first + query) * all->keys, all->dropped, all->kept, reach, wide,
                     left + query * padded);
        }
        if (all->bits) mixed = left;
        multiply(mixed, padded, 1, head_at(all->value, batch, head / all->heads_per_group), all->value.position,
                 head_at(all->out, batch, head) + first * all->out.position, all->out.position, count, reach, all->d, 0);
    }
}

// out = dropout(softmax(Q K^T scale)) V (Vaswani et al. 2017, equation 1). A part of scratch: (d + ROWS) x padded_keys.
void attention_forward(const Attention *all) {
    long groups = all->batch * all->groups;
#pragma omp parallel for num_threads(all->threads) if (all->threads > 1)
    for (long worker = 0; worker < all->threads; worker++) {
        float *keys = all->scratch + worker * all->part, *left = keys + all->d * all->padded_keys;
        for (long task = worker * groups / all->threads; task < (worker + 1) * groups / all->threads; task++) {
            long batch = task / all->groups, group = task % all->groups;
            transpose(head_at(all->key, batch, group), all->key.position, all->keys, all->d, all->padded_keys, keys);
            for (long head = group * all->heads_per_group; head < (group + 1) * all->heads_per_group; head++)
                forward_head(all, batch, head, keys, left);
        }
    }
}

// Gradients of a row's weights after dropout -> gradients of its scores, in place; `left` gets the weights after dropout.
INLINE void softmax_gradient(float *gradient, const float *weights, float kept, float scale, long padded, float *left) {
    vector sums = {0};
    for (long key = 0; key < padded; key += LANES) {
        vector weight = LOAD(weights + key);
        integers stays = (integers)weight >= 0;
        vector size = (vector)((integers)weight & 0x7fffffff);
        vector passed = (vector)((integers)(LOAD(gradient + key) * kept) & stays);
        AT(gradient + key) = passed;
        sums += passed * size;
        AT(left + key) = (vector)((integers)(weight * kept) & stays);
    }
    float mean = total(sums);
    for (long key = 0; key < padded; key += LANES)
        AT(gradient + key) = (vector)((integers)LOAD(weights + key) & 0x7fffffff) * (LOAD(gradient + key) - mean) * scale;
}

// The first query of the first tile that reaches a key.
INLINE long first_query(const int32_t *reach, long queries, long key) {
    long tiles = tiles_of(queries), first = 0;
    for (; first < queries && *reach <= key; reach++, tiles--) first += height(queries - first, tiles);
    return first;
}

static void backward_head(const Attention *all, const Attention *to, long batch, long head, const float *values, float *scores,
                          float *left) {
    long group = head / all->heads_per_group, add = head % all->heads_per_group > 0;
    long padded = all->padded_keys, d = all->d, queries = all->queries, step = to->out.position;
    long place = batch * all->groups * all->heads_per_group + head, tiles = tiles_of(queries);
    const int32_t *reaches = all->reach + place * tiles, *reach = reaches;
    const float *weights = all->weights + place * queries * padded, *gradient = head_at(to->out, batch, head);
    for (long first = 0, count; first < queries; first += count, tiles--, reach++) {
        count = height(queries - first, tiles);
        long wide = padded_to_lanes(*reach), read = wide + ROWS < padded ? wide + ROWS : padded; // by tiles of keys
        multiply(gradient + first * step, step, 1, values, padded, scores + first * padded, padded, count, d, wide, 0);
        for (long query = first; query < first + count; query++) {
            float *of_scores = scores + query * padded, *of_left = left + query * padded;
            softmax_gradient(of_scores, weights + query * padded, all->kept, all->scale, wide, of_left);
            memset(of_scores + wide, 0, sizeof(float) * (read - wide));
            memset(of_left + wide, 0, sizeof(float) * (read - wide));
        }
        multiply(scores + first * padded, padded, 1, head_at(all->key, batch, group), all->key.position,
                 head_at(to->query, batch, head) + first * to->query.position, to->query.position, count, *reach, d, 0);
    }
    tiles = tiles_of(all->keys);
    for (long key = 0, count; key < all->keys; key += count, tiles--) {
        count = height(all->keys - key, tiles);
        long first = first_query(reaches, queries, key), start = first * padded + key;
        multiply(scores + start, 1, padded, head_at(all->query, batch, head) + first * all->query.position, all->query.position,
                 head_at(to->key, batch, group) + key * to->key.position, to->key.position, count, queries - first, d, add);
        multiply(left + start, 1, padded, gradient + first * step, step,
                 head_at(to->value, batch, group) + key * to->value.position, to->value.position, count, queries - first, d, add);
    }
}

// The gradients `to` of query, key and value for that of out. A part of scratch: (d + 2 queries) x padded_keys.
void attention_backward(const Attention *all, const Attention *to) {
    long groups = all->batch * all->groups;
#pragma omp parallel for num_threads(all->threads) if (all->threads > 1)
    for (long worker = 0; worker < all->threads; worker++) {
        float *values = all->scratch + worker * all->part, *scores = values + all->d * all->padded_keys;
        for (long task = worker * groups / all->threads; task < (worker + 1) * groups / all->threads; task++) {
            long batch = task / all->groups, group = task % all->groups;
            transpose(head_at(all->value, batch, group), all->value.position, all->keys, all->d, all->padded_keys, values);
            for (long head = group * all->heads_per_group; head < (group + 1) * all->heads_per_group; head++)
                backward_head(all, to, batch, head, values, scores, scores + all->queries * all->padded_keys);
        }
    }
}
