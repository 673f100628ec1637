// Activations. The result of an element does not depend on its place in the tensor, to the bit; that of PyTorch's kernels does.
#include "dropout.h"
#include "kernels.h"

enum { SILU, GELU_TANH, GELU, QUICK_GELU };

// erfc(z) for z >= 0, with a relative error of 1.2e-7 (Press et al. 1992, section 6.2).
INLINE vector complement(vector z) {
    const float factors[] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
    vector t = 1 / (1 + 0.5f * z), sum = (vector){0};
    for (int place = 0; place < 10; place++) sum = sum * t + factors[place];
    return t * exponential(sum - z * z);
}

INLINE vector chosen(integers where, vector a, vector b) { return (vector)((where & (integers)a) | (~where & (integers)b)); }

// The factor s by which x is multiplied, and 1 - s.
typedef struct {
    vector share, rest;
} Share;

// GELU: x Phi(x), Phi the normal distribution function. SiLU: x sigmoid(x). GELU by tanh (Hendrycks and Gimpel 2016, section 2): x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); the quick one is x sigmoid(1.702 x).
INLINE Share share_of(vector x, int kind) {
    vector z = x, one = (vector){0} + 1.0f;
    if (kind == GELU) {
        vector below = 0.5f * complement(larger(x, -x) * 0.70710678f); // of the smaller side
        integers positive = x > 0;
        return (Share){chosen(positive, 1 - below, below), chosen(positive, below, 1 - below)};
    }
    if (kind == GELU_TANH) z = 1.59576912f * (x + 0.044715f * x * x * x);
    if (kind == QUICK_GELU) z = 1.702f * x;
    integers negative = z < 0;
    vector size = larger(z, -z), e = exponential(-size);
    return (Share){chosen(negative, e, one) / (1.0f + e), chosen(negative, one, e) / (1.0f + e)};
}

INLINE vector activated(vector x, int kind) { return x * share_of(x, kind).share; }

// The derivative of the activation.
INLINE vector slope_of(vector x, Share s, int kind) {
    if (kind == GELU) {
        vector square = -0.5f * x * x;
        return s.share + x * 0.39894228f * exponential(square);
    }
    vector slope = (vector){0} + 1.0f, both = s.share * s.rest;
    if (kind == GELU_TANH) slope = 1.59576912f * (1 + 0.134145f * x * x);
    if (kind == QUICK_GELU) slope *= 1.702f;
    vector added = x * both * slope; // infinity times 0 is 0 here
    return s.share + (vector)((integers)added & (both != 0));
}

// Rows of x and `times` (or NULL) are `x_row` and `times_row` floats, those of out `features`.
void activate(const float *x, long x_row, const float *times, long times_row, long rows, long features, int kind, float *out) {
    for (long row = 0; row < rows; row++)
        for (long place = 0; place < features; place += LANES) {
            long width = features - place < LANES ? features - place : LANES;
            float from[LANES] = {0}, by[LANES] = {0};
            memcpy(from, x + row * x_row + place, sizeof(float) * width);
            vector found = activated(LOAD(from), kind);
            if (times) {
                memcpy(by, times + row * times_row + place, sizeof(float) * width);
                found *= LOAD(by);
            }
            memcpy(out + row * features + place, &found, sizeof(float) * width);
        }
}

// LANES elements of dropout(activation(x) * inner), and the derivatives by x, and, if `gated`, by `inner`.
INLINE void drop_activated(vector x, vector inner, int gated, int kind, Dropout dropout, long place, float *out, float *slopes,
                           float *inner_slopes) {
    Share s = share_of(x, kind);
    vector value = x * s.share, slope = slope_of(x, s, kind);
    if (gated) {
        AT(inner_slopes) = left_of(value, dropout, place);
        value *= inner, slope *= inner;
    }
    AT(out) = left_of(value, dropout, place);
    AT(slopes) = left_of(slope, dropout, place);
}

// A row of them; of a gated x the first `features` are activated, the others are `inner`.
INLINE void drop_activated_row(const float *x, Dropout dropout, long begin, long features, int gated, int kind, float *out,
                               float *slopes) {
    long place = 0;
    for (; place + LANES <= features; place += LANES) {
        vector inner = {0};
        if (gated) inner = LOAD(x + features + place);
        drop_activated(LOAD(x + place), inner, gated, kind, dropout, begin + place, out + place, slopes + place,
                       slopes + features + place);
    }
    if (place == features) return;
    float from[LANES] = {0}, inner[LANES] = {0}, to[LANES], slope[LANES], inner_slope[LANES];
    int16_t bits[LANES] = {0};
    long left = features - place, size = sizeof(float) * left;
    memcpy(from, x + place, size);
    if (gated) memcpy(inner, x + features + place, size);
    if (dropout.bits) memcpy(bits, dropout.bits + begin + place, sizeof(int16_t) * left), dropout.bits = bits;
    drop_activated(LOAD(from), LOAD(inner), gated, kind, dropout, 0, to, slope, inner_slope);
    memcpy(out + place, to, size);
    memcpy(slopes + place, slope, size);
    if (gated) memcpy(slopes + features + place, inner_slope, size);
}

// out = dropout(activation(x)), or dropout(activation(gate) * inner) if rows of x are (gate, inner); slopes: the derivatives of out by x.
void activate_dropped(const float *x, const int16_t *bits, int dropped, float kept, long rows, long features, int gated, int kind,
                      float *out, float *slopes, int threads) {
    Dropout dropout = {bits, dropped, kept};
    long width = gated ? 2 * features : features;
#define ROW(GATED, KIND) \
    drop_activated_row(x + row * width, dropout, row * features, features, GATED, KIND, out + row * features, slopes + row * width)
#define OF(KIND) \
    case KIND: \
        if (gated) ROW(1, KIND); \
        else ROW(0, KIND); \
        break;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) switch (kind) {
            OF(SILU)
            OF(GELU_TANH)
            OF(GELU)
            OF(QUICK_GELU)
        }
}

// The gradient of `activate_dropped`'s output -> of its input.
void activate_dropped_backward(const float *gradient, const float *slopes, long rows, long features, int gated, float *of_x, int threads) {
    int parts = gated ? 2 : 1;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows * parts; row++) {
        const float *from = gradient + row / parts * features, *by = slopes + row * features;
        float *to = of_x + row * features;
        for (long place = 0; place < features; place++) to[place] = from[place] * by[place];
    }
}
