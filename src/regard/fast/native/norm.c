// Layer norm (Ba et al. 2016, equation 4), and RMS norm (Zhang and Sennrich 2019, equation 4).
#include "kernels.h"

// x, out: rows x features. `center`: whether the mean is subtracted. gain, bias: one number per feature; bias may be NULL.
void norm(const float *x, long rows, long features, int center, float eps, const float *gain, const float *bias, float *out) {
    for (long row = 0; row < rows; row++, x += features, out += features) {
        vector sums = {0}, squares = {0};
        float sum = 0, square = 0;
        long place = 0;
        if (center) {
            for (; place + LANES <= features; place += LANES) sums += LOAD(x + place);
            for (; place < features; place++) sum += x[place];
        }
        float mean = (sum + total(sums)) / features;
        for (place = 0; place + LANES <= features; place += LANES) squares += (LOAD(x + place) - mean) * (LOAD(x + place) - mean);
        for (; place < features; place++) square += (x[place] - mean) * (x[place] - mean);
        float scale = 1 / sqrtf((square + total(squares)) / features + eps);
        for (place = 0; place + LANES <= features; place += LANES) {
            vector scaled = (LOAD(x + place) - mean) * scale * LOAD(gain + place);
            if (bias) scaled += LOAD(bias + place);
            AT(out + place) = scaled;
        }
        for (; place < features; place++) out[place] = (x[place] - mean) * scale * gain[place] + (bias ? bias[place] : 0);
    }
}
