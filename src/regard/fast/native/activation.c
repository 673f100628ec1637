// Activations. The result of an element does not depend on its place in the tensor, to the bit; that of PyTorch's kernels does.
#include "kernels.h"

enum { SILU, GELU_TANH, GELU, QUICK_GELU };

// erfc(z) for z >= 0, with a relative error of 1.2e-7 (Press et al. 1992, section 6.2).
INLINE vector complement(vector z) {
    const float factors[] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
    vector t = 1 / (1 + 0.5f * z), sum = (vector){0};
    for (int place = 0; place < 10; place++) sum = sum * t + factors[place];
    return t * exponential(sum - z * z);
}

// GELU: x Phi(x), Phi the normal distribution function. SiLU: x sigmoid(x). GELU by tanh (Hendrycks and Gimpel 2016, section 2): x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); the quick one is x sigmoid(1.702 x).
INLINE vector activated(vector x, int kind) {
    vector z = x;
    if (kind == GELU) {
        vector below = 0.5f * complement(larger(x, -x) * 0.70710678f); // of the smaller side
        integers positive = x > 0;
        return x * (vector)((positive & (integers)(1 - below)) | (~positive & (integers)below));
    }
    if (kind == GELU_TANH) z = 1.59576912f * (x + 0.044715f * x * x * x);
    if (kind == QUICK_GELU) z = 1.702f * x;
    integers negative = z < 0;
    vector size = larger(z, -z), e = exponential(-size), one = (vector){0} + 1.0f;
    vector above = (vector)((negative & (integers)e) | (~negative & (integers)one));
    return x * (above / (1.0f + e));
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
