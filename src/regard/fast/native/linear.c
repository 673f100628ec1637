// A linear layer, with an optional residual and ReLU.
#include "kernels.h"

int panel_width(void) { return WIDTH; }

// out = x W + bias (+ residual), then ReLU if `weights->relu`. x: rows x features; out, residual: rows x columns.
// Scratch for int8 weights: `levels` for rows x level_bytes(features), `level_scales` for one float a row.
void linear(const float *x, long rows, const Weights *weights, const float *residual, float *out, void *levels,
            float *level_scales, int threads) {
    Inputs inputs = inputs_of(x, rows, weights, levels, level_scales, threads);
    PARALLEL(threads, for (long column = 0; column < weights->columns; column += GROUP * WIDTH)
                          multiply(inputs, weights, column, residual ? residual + column : 0, out + column, weights->columns);)
}
