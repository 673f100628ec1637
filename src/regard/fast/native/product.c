// Products of tiles of rows with panels of weights (product.h), in float32 and in int8.
#include "product.h"
#include "dot.h"

#if defined(__AVX512F__)
enum { ROWS = 12 }; // of a tile, whose sums fit into the registers with two vectors of weights
#else
enum { ROWS = 5 };
#endif
enum { STREAMS = 4 };

int has_int8(void) {
#ifdef DOT
    return 1;
#else
    return 0;
#endif
}

INLINE long quads(long features) { return (features + QUAD - 1) / QUAD * QUAD; }

// Of a quantised row.
INLINE long row_bytes(long features) { return quads(features) + SIGNS * (quads(features) + sizeof(int32_t)); }

long level_bytes(long features) { return row_bytes(features); }

INLINE const level *levels_of(Inputs in, long row, long features) { return (const level *)in.levels + row * row_bytes(features); }

INLINE void keep(vector sum, const float *residual, float *out, int relu) {
    if (residual) sum += LOAD(residual);
    if (relu) sum = (vector)((integers)sum & ~(sum < 0)); // NaN stays NaN
    AT(out) = sum;
}

// Write the first `width` outputs of a panel for one row. `residual` may be NULL.
static __attribute__((noinline)) void finish(vector left, vector right, const float *residual, float *out, long width, int relu) {
    float edge[WIDTH], residue[WIDTH], *place = out;
    if (width < WIDTH) { // the padding columns of the last panel are not part of `out`
        if (residual) residual = memcpy(residue, residual, sizeof(float) * width);
        place = edge;
    }
    keep(left, residual, place, relu);
    keep(right, residual ? residual + LANES : 0, place + LANES, relu);
    if (width < WIDTH) memcpy(out, edge, sizeof(float) * width);
}

// The address that is prefetched while the panel at `column` is multiplied: one part of the next group of STREAMS panels, each
// read as its own stream, because memory delivers several streams faster than one. After the last panel: the next layer's.
INLINE const float *prefetched(const Weights *weights, long column) {
    long panel = column / WIDTH, next = (panel / STREAMS + 1) * STREAMS, part = weights->features / STREAMS * WIDTH;
    const float *from = weights->panels + next * weights->features * WIDTH;
    if (next * WIDTH >= weights->columns) from = weights->after ? weights->after : weights->panels;
    return from + panel % STREAMS * part;
}

INLINE void add(int count, vector sums[][2], const float *panel, const float *x, long features) {
    vector left = LOAD(panel), right = LOAD(panel + LANES);
    for (int row = 0; row < count; row++) {
        sums[row][0] += left * x[row * features];
        sums[row][1] += right * x[row * features];
    }
}

// `count` rows (a compile-time constant, so that sums stay in registers) times the panel that begins at `column`.
INLINE void tile(int count, Inputs in, const Weights *weights, long column, const float *residual, float *out, long stride,
                 long width) {
    vector sums[ROWS][2];
    long features = weights->features, feature = 0;
    const float *panel = weights->panels + column * features, *bias = weights->bias + column;
    const float *next = in.first ? prefetched(weights, column) : panel;
    for (int row = 0; row < count; row++) sums[row][0] = LOAD(bias), sums[row][1] = LOAD(bias + LANES);
    for (; feature + STREAMS <= features; next += WIDTH)
        for (int stream = 0; stream < STREAMS; stream++, feature++) {
            __builtin_prefetch(next + stream * features * WIDTH, 0, 2);
            __builtin_prefetch(next + stream * features * WIDTH + LANES, 0, 2);
            add(count, sums, panel + feature * WIDTH, in.x + feature, features);
        }
    for (; feature < features; feature++) add(count, sums, panel + feature * WIDTH, in.x + feature, features);
    for (int row = 0; row < count; row++)
        finish(sums[row][0], sums[row][1], residual ? residual + row * stride : 0, out + row * stride, width, weights->relu);
}

// One row times GROUP panels, each read as its own stream from memory, without prefetching.
INLINE void row_by_group(Inputs in, const Weights *weights, long column, const float *residual, float *out) {
    vector sums[GROUP][2];
    long features = weights->features;
    const float *bias = weights->bias + column;
    for (int each = 0; each < GROUP; each++)
        sums[each][0] = LOAD(bias + each * WIDTH), sums[each][1] = LOAD(bias + each * WIDTH + LANES);
    for (long feature = 0; feature < features; feature++)
        for (int each = 0; each < GROUP; each++) {
            const float *panel = weights->panels + (column + each * WIDTH) * features + feature * WIDTH;
            sums[each][0] += LOAD(panel) * in.x[feature];
            sums[each][1] += LOAD(panel + LANES) * in.x[feature];
        }
    for (int each = 0; each < GROUP; each++)
        finish(sums[each][0], sums[each][1], residual ? residual + each * WIDTH : 0, out + each * WIDTH, WIDTH, weights->relu);
}

#ifdef DOT
// The sum of the absolute values of a row's negative levels.
INLINE int32_t negative(Inputs in, long row, long features) {
    int32_t sum;
    memcpy(&sum, levels_of(in, row, features) + 2 * features, sizeof sum);
    return sum;
}

INLINE void tile_int8(int count, Inputs in, const Weights *weights, long column, const float *residual, float *out,
                      long stride, long width) {
    integers sums[ROWS][2];
    long features = quads(weights->features);
    const int8_t *panel = weights->int8_panels + column * features;
    const float *bias = weights->bias + column, *scales = weights->scales + column;
    for (int row = 0; row < count; row++)
        for (int side = 0; side < 2; side++)
            if (MIDDLE) sums[row][side] = -*(const integers *)(weights->offsets + column + side * LANES);
            else sums[row][side] = (integers){0} + (SIGNS ? negative(in, row, features) : 0);
    for (long feature = 0; feature < features; feature += QUAD, panel += QUAD * WIDTH) {
        integers left = *(const integers *)panel, right = *(const integers *)(panel + QUAD * LANES);
        for (int row = 0; row < count; row++) {
            const level *x = levels_of(in, row, features) + feature;
            sums[row][0] = dot(sums[row][0], x, features, left);
            sums[row][1] = dot(sums[row][1], x, features, right);
        }
    }
    for (int row = 0; row < count; row++) {
        vector left = __builtin_convertvector(sums[row][0], vector) * LOAD(scales) * in.scales[row] + LOAD(bias);
        vector right = __builtin_convertvector(sums[row][1], vector) * LOAD(scales + LANES) * in.scales[row] + LOAD(bias + LANES);
        finish(left, right, residual ? residual + row * stride : 0, out + row * stride, width, weights->relu);
    }
}

// Puts sizes in place of levels, and behind them the signs and `negative`.
INLINE void split_signs(level *levels, long features) {
    int32_t sum = 0;
    for (long place = 0; place < features; place++) {
        int8_t signed_level = (int8_t)levels[place], sign = signed_level < 0 ? -1 : 0;
        levels[place] = (signed_level ^ sign) - sign;
        levels[place + features] = sign;
        sum += levels[place] & (uint8_t)sign;
    }
    memcpy(levels + 2 * features, &sum, sizeof sum);
}

// Quantises a row: 127 steps from 0 to its largest value.
INLINE void round_row(const float *x, long features, level *levels, float *scale) {
    vector maxima = {0};
    vector zeros = {0}; // becomes NaN if an input is NaN or infinite
    float maximum = 0;
    long place = 0;
    for (; place + LANES <= features; place += LANES) {
        maxima = larger(maxima, larger(LOAD(x + place), -LOAD(x + place)));
        zeros += LOAD(x + place) * 0.0f;
    }
    for (int lane = 0; lane < LANES; lane++) maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
    for (; place < features; place++) {
        maximum = fabsf(x[place]) > maximum ? fabsf(x[place]) : maximum;
        zeros[0] += x[place] * 0.0f;
    }
    *scale = (maximum < 1e-30f ? 1e-30f : maximum) / 127 + total(zeros);
    float steps = 1 / *scale;
    for (place = 0; place < features; place++) // truncation rounds
        levels[place] = (level)((uint8_t)(x[place] * steps + 128.5f) - (128 - MIDDLE));
    for (; place < quads(features); place++) levels[place] = MIDDLE;
    if (SIGNS) split_signs(levels, quads(features));
}
#else
#define tile_int8(...) (void)0
#define round_row(x, features, ...) (void)features
#endif

Inputs inputs_of(const float *x, long rows, const Weights *weights, void *levels, float *scales, int threads) {
    long features = weights->features;
    if (weights->int8_panels) {
        PARALLEL(threads, for (long row = 0; row < rows; row++)
                              round_row(x + row * features, features, (level *)levels + row * row_bytes(features), scales + row);)
    }
    return (Inputs){x, levels, scales, rows, 1};
}

// The tile of rows from `row` on times the panel that begins at `column`.
static void by_panel(Inputs in, long row, const Weights *weights, long column, const float *residual, float *out, long stride) {
    long width = weights->columns - column < WIDTH ? weights->columns - column : WIDTH;
    Inputs from = {in.x + row * weights->features, levels_of(in, row, weights->features), in.scales + row, 0, !row};
    const float *plus = residual ? residual + row * stride : 0;
    float *to = out + row * stride;
#define TILE(count)                                                                                                            \
    if (weights->panels) tile(count, from, weights, column, plus, to, stride, width);                                          \
    else tile_int8(count, from, weights, column, plus, to, stride, width)
    switch (in.rows - row) {
    case 1: TILE(1); break;
    case 2: TILE(2); break;
    case 3: TILE(3); break;
    case 4: TILE(4); break;
#if __AVX512F__
    case 5: TILE(5); break;
    case 6: TILE(6); break;
    case 7: TILE(7); break;
    case 8: TILE(8); break;
    case 9: TILE(9); break;
    case 10: TILE(10); break;
    case 11: TILE(11); break;
#endif
    default: TILE(ROWS);
    }
#undef TILE
}

void multiply(Inputs in, const Weights *weights, long column, const float *residual, float *out, long stride) {
    if (in.rows == 1 && weights->panels && column + GROUP * WIDTH <= weights->columns)
        return row_by_group(in, weights, column, residual, out);
    for (long row = 0; row < in.rows; row += ROWS) // a tile of rows stays in the cache for all panels
        for (long each = 0; each < GROUP * WIDTH && column + each < weights->columns; each += WIDTH)
            by_panel(in, row, weights, column + each, residual ? residual + each : 0, out + each, stride);
}
