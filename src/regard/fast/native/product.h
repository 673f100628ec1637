// Few rows by many weights. The weights lie in panels of WIDTH columns, each read once from front to back.
//
// An output is summed up by one accumulator in one order: a row has the same bits in any batch and on any number
// of threads. In int8 a row's inputs are rounded with a scale of its own; sums of whole numbers are exact.
#pragma once
#include "vectors.h"

enum { WIDTH = 2 * LANES, GROUP = 8 }; // columns of a panel; panels that are multiplied together

// A linear layer. Spare columns of the last panel are zeros, also in `bias`, `scales` and `offsets`.
typedef struct {
    const float *panels;        // feature by feature; or NULL,
    const int8_t *int8_panels;  // four features after four, those four of a column side by side
    const float *bias, *scales; // int8: what a step of a column's weights is worth
    const int32_t *offsets;     // int8: 128, the level of 0, times the sum of a column's weights
    long features, columns;
    int relu;           // whether max(0, .) follows
    const float *after; // panels that are wanted next, or NULL
} Weights;

// Rows of `weights->features`: floats, or levels (their number filled up to a multiple of 4) and their scales.
typedef struct {
    const float *x;
    const uint8_t *levels;
    const float *scales;
    long rows;
    int first; // whether nothing has been multiplied by these weights yet
} Inputs;

#define OWN __attribute__((visibility("hidden")))

// `levels` and `scales`: room for what int8 makes of the rows.
OWN Inputs inputs_of(const float *x, long rows, const Weights *weights, uint8_t *levels, float *scales);

// The outputs of all rows from `column` on, GROUP panels of them or what is left. out, residual (or NULL): rows of `stride` floats.
OWN void multiply(Inputs in, const Weights *weights, long column, const float *residual, float *out, long stride);
