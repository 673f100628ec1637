// Attention for training: many queries per head, and the gradients. For short sentences a BLAS library is slow on such small
// products. A head is computed by one thread, so results do not depend on the number of threads.
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
    long batch, groups, heads_per_group, queries, keys, padded_keys, d; // padded_keys: rounded up to a multiple of LANES
    float scale, kept; // kept: 1 / (1 - dropout)
    int dropped, threads;
    float *scratch; // one part for each thread
    long part;
} Attention;

int lanes(void) { return LANES; }

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

#define TILE(count)                                                                                                    \
    case count:                                                                                                        \
        for (; column + 2 * LANES <= columns; column += 2 * LANES)                                                     \
            tile(count, 2, a, a_row, a_inner, b + column, b_row, out + column, out_row, inner, add);                   \
        if (column < columns) tile(count, 1, a, a_row, a_inner, b + column, b_row, out + column, out_row, inner, add); \
        break;

// out (+)= A B; `columns` is a multiple of LANES. Tiles have almost equal heights.
static void multiply(const float *a, long a_row, long a_inner, const float *b, long b_row, float *out, long out_row, long rows,
                     long inner, long columns, int add) {
    for (long tiles = (rows + ROWS - 1) / ROWS; rows; tiles--) {
        long column = 0, count = (rows + tiles - 1) / tiles;
        switch (count) { TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) }
        rows -= count, a += count * a_row, out += count * out_row;
    }
}

// Rows of d features -> d rows of `padded` columns, the spare ones zero.
static void transpose(const float *from, long step, long rows, long d, long padded, float *to) {
    for (long feature = 0; feature < d; feature++, to += padded) {
        for (long row = 0; row < rows; row++) to[row] = from[row * step + feature];
        for (long row = rows; row < padded; row++) to[row] = 0;
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

static void forward_head(const Attention *all, long batch, long head, const float *keys, float *left) {
    long row = (batch * all->groups * all->heads_per_group + head) * all->queries, padded = all->padded_keys;
    float *weights = all->weights + row * padded, *mixed = weights;
    multiply(head_at(all->query, batch, head), all->query.position, 1, keys, padded, weights, padded, all->queries, all->d,
             padded, 0);
    for (long query = 0; query < all->queries; query++) {
        const uint8_t *mask = all->mask ? all->mask + batch * all->mask_batch + head * all->mask_head + query * all->mask_query : 0;
        softmax(weights + query * padded, mask, all->scale, all->keys, padded);
        if (all->bits)
            drop(weights + query * padded, all->bits + (row + query) * all->keys, all->dropped, all->kept, all->keys, padded,
                 left + query * padded);
    }
    if (all->bits) mixed = left;
    multiply(mixed, padded, 1, head_at(all->value, batch, head / all->heads_per_group), all->value.position,
             head_at(all->out, batch, head), all->out.position, all->queries, all->keys, all->d, 0);
}

// out = dropout(softmax(Q K^T scale)) V (Vaswani et al. 2017, equation 1). A part of scratch: (d + queries) x padded_keys.
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

static void backward_head(const Attention *all, const Attention *to, long batch, long head, const float *values, float *scores,
                          float *left) {
    long group = head / all->heads_per_group, add = head % all->heads_per_group > 0;
    long padded = all->padded_keys, d = all->d, queries = all->queries;
    const float *weights = all->weights + (batch * all->groups * all->heads_per_group + head) * queries * padded;
    const float *gradient = head_at(to->out, batch, head);
    long step = to->out.position;
    multiply(gradient, step, 1, values, padded, scores, padded, queries, d, padded, 0);
    for (long query = 0; query < queries; query++)
        softmax_gradient(scores + query * padded, weights + query * padded, all->kept, all->scale, padded, left + query * padded);
    multiply(scores, padded, 1, head_at(all->key, batch, group), all->key.position, head_at(to->query, batch, head),
             to->query.position, queries, all->keys, d, 0);
    multiply(scores, 1, padded, head_at(all->query, batch, head), all->query.position, head_at(to->key, batch, group),
             to->key.position, all->keys, queries, d, add);
    multiply(left, 1, padded, gradient, step, head_at(to->value, batch, group), to->value.position, all->keys, queries, d,
             add);
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
