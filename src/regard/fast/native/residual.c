// Dropout, residual connection and layer norm with their gradients, in one pass over memory.
#include "dropout.h"

// out = residual + dropout(x); `residual` may be NULL.
INLINE void add_row(const float *residual, const float *x, Dropout dropout, long begin, long end, float *out) {
    long place = begin;
    for (; place + LANES <= end; place += LANES) {
        vector left = left_of(LOAD(x + place), dropout, place);
        if (residual) left += LOAD(residual + place);
        AT(out + place) = left;
    }
    for (; place < end; place++) out[place] = (residual ? residual[place] : 0) + one_left_of(x[place], dropout, place);
}

void add_dropped(const float *residual, const float *x, const int16_t *bits, int dropped, float kept, long count, float *out,
                 int threads) {
    Dropout dropout = {bits, dropped, kept};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        add_row(residual, x, dropout, part(count, thread, threads), part(count, thread + 1, threads), out);
}

// sum = residual + dropout(x); out = its layer norm (Ba et al. 2016, equation 4). moments: mean and 1 / deviation of a row.
void post_norm(const float *residual, const float *x, const int16_t *bits, int dropped, float kept, long rows, long features,
               float eps, const float *gain, const float *bias, float *sum, float *moments, float *out, int threads) {
    Dropout dropout = {bits, dropped, kept};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        long begin = row * features, end = begin + features, place;
        add_row(residual, x, dropout, begin, end, sum);
        vector sums = {0}, squares = {0};
        float mean = 0, square = 0;
        for (place = begin; place + LANES <= end; place += LANES) sums += LOAD(sum + place);
        for (; place < end; place++) mean += sum[place];
        mean = (mean + total(sums)) / features;
        for (place = begin; place + LANES <= end; place += LANES) squares += (LOAD(sum + place) - mean) * (LOAD(sum + place) - mean);
        for (; place < end; place++) square += (sum[place] - mean) * (sum[place] - mean);
        float scale = 1 / sqrtf((square + total(squares)) / features + eps);
        moments[2 * row] = mean, moments[2 * row + 1] = scale;
        for (place = begin; place + LANES <= end; place += LANES)
            AT(out + place) = (LOAD(sum + place) - mean) * scale * LOAD(gain + place - begin) + LOAD(bias + place - begin);
        for (; place < end; place++) out[place] = (sum[place] - mean) * scale * gain[place - begin] + bias[place - begin];
    }
}

// The gradient of a row's layer norm -> the gradient of its sum; the gradients of gain and bias are accumulated.
INLINE void norm_gradient(const float *gradient, const float *sum, const float *moments, long features, const float *gain,
                          float *of_sum, float *of_gain, float *of_bias) {
    float mean = moments[0], scale = moments[1], first = 0, second = 0;
    vector firsts = {0}, seconds = {0};
    long place = 0;
    for (; place + LANES <= features; place += LANES) {
        vector from = LOAD(gradient + place), normed = (LOAD(sum + place) - mean) * scale, product = from * normed;
        AT(of_gain + place) += product;
        AT(of_bias + place) += from;
        firsts += from * LOAD(gain + place);
        seconds += product * LOAD(gain + place);
    }
    for (; place < features; place++) {
        float product = gradient[place] * (sum[place] - mean) * scale;
        of_gain[place] += product;
        of_bias[place] += gradient[place];
        first += gradient[place] * gain[place];
        second += product * gain[place];
    }
    first = (first + total(firsts)) / features, second = (second + total(seconds)) / features;
    for (place = 0; place + LANES <= features; place += LANES) {
        vector normed = (LOAD(sum + place) - mean) * scale;
        AT(of_sum + place) = (LOAD(gradient + place) * LOAD(gain + place) - first - normed * second) * scale;
    }
    for (; place < features; place++)
        of_sum[place] = (gradient[place] * gain[place] - first - (sum[place] - mean) * scale * second) * scale;
}

// of_sum is the gradient of the residual too. of_gain, of_bias: a row for each thread, zeros at first.
void post_norm_backward(const float *gradient, const float *sum, const float *moments, const int16_t *bits, int dropped,
                        float kept, long rows, long features, const float *gain, float *of_sum, float *of_x, float *of_gain,
                        float *of_bias, int threads) {
    Dropout dropout = {bits, dropped, kept};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            long begin = row * features;
            norm_gradient(gradient + begin, sum + begin, moments + 2 * row, features, gain, of_sum + begin,
                          of_gain + thread * features, of_bias + thread * features);
            if (bits) add_row(NULL, of_sum, dropout, begin, begin + features, of_x);
        }
}

// x = dropout(max(0, x + bias)), in place.
void relu_dropped(float *x, const float *bias, const int16_t *bits, int dropped, float kept, long rows, long features,
                  int threads) {
    Dropout dropout = {bits, dropped, kept};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < rows; row++) {
        long begin = row * features, place = 0;
        for (; place + LANES <= features; place += LANES) {
            vector sum = LOAD(x + begin + place) + LOAD(bias + place);
            sum = (vector)((integers)sum & ~(sum < 0)); // NaN stays NaN
            AT(x + begin + place) = left_of(sum, dropout, begin + place);
        }
        for (; place < features; place++) {
            float sum = x[begin + place] + bias[place];
            x[begin + place] = one_left_of(sum < 0 ? 0 : sum, dropout, begin + place);
        }
    }
}

// The gradient of `relu_dropped`'s output -> of its input, in place; the bias gradient is summed over the rows of each thread.
void relu_dropped_backward(float *gradient, const float *out, float kept, long rows, long features, float *of_bias, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++) {
        float *sums = of_bias + thread * features;
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            long begin = row * features, place = 0;
            for (; place + LANES <= features; place += LANES) {
                vector passed = (vector)((integers)(LOAD(gradient + begin + place) * kept) & ~(LOAD(out + begin + place) <= 0));
                AT(gradient + begin + place) = passed;
                AT(sums + place) += passed;
            }
            for (; place < features; place++) {
                float passed = out[begin + place] <= 0 ? 0 : gradient[begin + place] * kept;
                gradient[begin + place] = passed;
                sums[place] += passed;
            }
        }
    }
}
