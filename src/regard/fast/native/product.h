// Products of few rows with many weights. The weights are stored in panels of WIDTH columns, each read once in order.
//
// An output is summed by one accumulator in one order, so a row's result depends neither on its batch nor on the number
// of threads. In int8 a row's inputs are quantised with the row's own scale; sums of integers are exact.
#pragma once
#include "vectors.h"

enum { WIDTH = 2 * LANES, GROUP = 8 }; // columns of a panel; panels that are multiplied together

// A linear layer. The last panel is padded with zeros, also in `bias`, `scales` and `offsets`.
typedef struct {
    const float *panels;        // feature by feature; or NULL,
    const int8_t *int8_panels;  // in groups of four features: the four of a column are contiguous
    const float *bias, *scales; // scales, int8: the value of one step of a column's weights
    const int32_t *offsets;     // int8, for unsigned inputs: 128, which stands for 0, times the sum of a column's weights
    long features, columns;
    int relu;           // whether max(0, .) follows
    const float *after; // panels to prefetch after these, or NULL
} Weights;

// Rows of `weights->features` floats; or quantised rows of `level_bytes(features)` bytes and their scales.
typedef struct {
    const float *x;
    const void *levels;
    const float *scales;
    long rows;
    int first; // whether these are the first rows multiplied by these weights
} Inputs;

#define OWN __attribute__((visibility("hidden")))

// `levels` and `scales`: scratch for the quantised rows.
OWN Inputs inputs_of(const float *x, long rows, const Weights *weights, void *levels, float *scales, int threads);

// The outputs of all rows from `column` on: GROUP panels, or the remaining ones. out, residual (or NULL): rows of `stride` floats.
OWN void multiply(Inputs in, const Weights *weights, long column, const float *residual, float *out, long stride);
