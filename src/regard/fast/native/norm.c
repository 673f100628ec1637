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

// RMS norm for training. scales: 1 / root mean square of each row, for the backward pass.
void rms_norm(const float *x, long rows, long features, float eps, const float *gain, float *scales, float *out, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        const float *from = x + row * features;
        float *to = out + row * features, square = 0;
        vector squares = {0};
        long place = 0;
        for (; place + LANES <= features; place += LANES) squares += LOAD(from + place) * LOAD(from + place);
        for (; place < features; place++) square += from[place] * from[place];
        float scale = scales[row] = 1 / sqrtf((square + total(squares)) / features + eps);
        for (place = 0; place + LANES <= features; place += LANES) AT(to + place) = LOAD(from + place) * scale * LOAD(gain + place);
        for (; place < features; place++) to[place] = from[place] * scale * gain[place];
    }
}

// of_gain: a row for each thread, zeros at first; so its last bits depend on the number of threads.
void rms_norm_backward(const float *gradient, const float *x, const float *scales, long rows, long features, const float *gain,
                       float *of_x, float *of_gain, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            const float *from = x + row * features, *by = gradient + row * features;
            float *to = of_x + row * features, *gains = of_gain + thread * features, scale = scales[row], sum = 0;
            vector sums = {0};
            long place = 0;
            for (; place + LANES <= features; place += LANES) {
                vector product = LOAD(by + place) * LOAD(from + place) * scale;
                AT(gains + place) += product;
                sums += product * LOAD(gain + place);
            }
            for (; place < features; place++) {
                float product = by[place] * from[place] * scale;
                gains[place] += product;
                sum += product * gain[place];
            }
            float mean = (sum + total(sums)) / features * scale;
            for (place = 0; place + LANES <= features; place += LANES)
                AT(to + place) = (LOAD(by + place) * LOAD(gain + place) - LOAD(from + place) * mean) * scale;
            for (; place < features; place++) to[place] = (by[place] * gain[place] - from[place] * mean) * scale;
        }
}
