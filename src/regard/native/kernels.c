// The inner loops of a decoding step in float32, for the processor on which they are compiled (`build.py`).
//
// Few rows meet many weights, so the weights lie in panels of WIDTH columns, each read once from front to back.
// A sum is always made in the same order, by one accumulator an output: a row has the same bits in any company
// and on any number of threads. Vectors are those of GCC and Clang, so no processor has a text of its own.
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 8 };
#elif defined(__AVX__)
enum { LANES = 8, ROWS = 4 };
#else
enum { LANES = 4, ROWS = 4 };
#endif
enum { WIDTH = 2 * LANES }; // columns of a panel

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define AT(address) (*(vector *)(address))
#define SEEN(address) (*(const vector *)(address))
#define INLINE static inline __attribute__((always_inline))

int panel_width(void) { return WIDTH; }

// What a product goes on with: NULL for no bias, no residual.
typedef struct {
    const float *bias, *residual;
    int relu;
} After;

INLINE void keep(vector sum, const float *residual, float *out, int relu) {
    if (residual) sum += SEEN(residual);
    if (relu) sum = (vector)((integers)sum & ~(sum < 0)); // what is not a number stays so
    AT(out) = sum;
}

// `count` rows of x (known to the compiler, so that sums stay in registers) by one panel of weights.
INLINE void tile(int count, const float *x, long features, const float *panel, After after, float *out, long columns,
                 long width) {
    vector sums[ROWS][2];
    float edge[WIDTH], residue[WIDTH];
    for (int row = 0; row < count; row++) {
        sums[row][0] = SEEN(after.bias);
        sums[row][1] = SEEN(after.bias + LANES);
    }
    for (long feature = 0; feature < features; feature++, panel += WIDTH) {
        vector left = SEEN(panel), right = SEEN(panel + LANES);
        for (int row = 0; row < count; row++) {
            sums[row][0] += left * x[row * features + feature];
            sums[row][1] += right * x[row * features + feature];
        }
    }
    for (int row = 0; row < count; row++, out += columns) {
        const float *residual = after.residual ? after.residual + row * columns : 0;
        float *place = out;
        if (width < WIDTH) { // the last panel: its spare columns are no part of `out`
            if (residual) residual = memcpy(residue, residual, sizeof(float) * width);
            place = edge;
        }
        keep(sums[row][0], residual, place, after.relu);
        keep(sums[row][1], residual ? residual + LANES : 0, place + LANES, after.relu);
        if (width < WIDTH) memcpy(out, edge, sizeof(float) * width);
    }
}

// out = x W + bias (+ residual), then ReLU. x: rows x features; out, residual: rows x columns; `panels`: the
// columns of W in panels of WIDTH, feature by feature, the last one and the bias filled up with zeros.
void linear(const float *x, long rows, long features, const float *panels, const float *bias, const float *residual,
            int relu, float *out, long columns, int threads) {
    long count = (columns + WIDTH - 1) / WIDTH;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long number = 0; number < count; number++) {
        long column = number * WIDTH, width = columns - column < WIDTH ? columns - column : WIDTH;
        const float *panel = panels + column * features;
        for (long row = 0; row < rows; row += ROWS) {
            After after = {bias + column, residual ? residual + row * columns + column : 0, relu};
            const float *from = x + row * features;
            float *to = out + row * columns + column;
#define TILE(count) tile(count, from, features, panel, after, to, columns, width)
            switch (rows - row) {
            case 1: TILE(1); break;
            case 2: TILE(2); break;
            case 3: TILE(3); break;
#if __AVX512F__
            case 4: TILE(4); break;
            case 5: TILE(5); break;
            case 6: TILE(6); break;
            case 7: TILE(7); break;
#endif
            default: TILE(ROWS);
            }
#undef TILE
        }
    }
}

// e^x for x <= 0, to two units in the last place; 0 below -87. (Cody and Waite's reduction, a polynomial of degree 6.)
INLINE vector exponential(vector x) {
    vector least = (vector){0} - 87.0f;
    integers far = x < least;
    x = (vector)(((integers)least & far) | ((integers)x & ~far));
    vector whole = x * 1.44269504f + 12582912.0f; // the sum's last bits are the nearest whole number
    integers power = ((integers)whole - 0x4B400000) << 23;
    whole -= 12582912.0f;
    vector rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vector sum = rest * 1.3981999507e-3f + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    return (vector)(((integers)sum + power) & ~far);
}

INLINE float total(vector sums) {
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

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
