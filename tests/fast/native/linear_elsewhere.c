// Reads a linear layer in int8 and rows of inputs, multiplies them by the kernels, and writes the outputs.
//
// In: rows, features, columns (int64); inputs (float32); weights (int8: columns x features); scales, bias (float32).
#include "kernels.h"
#include <stdio.h>
#include <stdlib.h>

int has_int8(void);
long level_bytes(long features);

static void *taken(size_t count, size_t size) {
    void *read = calloc(count + 4 * WIDTH, size);
    if (!read || fread(read, size, count, stdin) != count) exit(1);
    return read;
}

int main(void) {
    if (!has_int8()) return 2;
    int64_t *sizes = taken(3, sizeof(int64_t)), rows = sizes[0], features = sizes[1], columns = sizes[2];
    float *x = taken(rows * features, sizeof(float));
    int8_t *weights = taken(columns * features, 1);
    float *scales = taken(columns, sizeof(float)), *bias = taken(columns, sizeof(float)), *out = calloc(rows * columns, sizeof(float));
    long quads = (features + 3) / 4, panels = (columns + WIDTH - 1) / WIDTH;
    int8_t *packed = calloc(panels * WIDTH, quads * 4);
    int32_t *offsets = calloc(panels * WIDTH, sizeof(int32_t));
    for (long column = 0; column < columns; column++)
        for (long feature = 0; feature < features; feature++) {
            long panel = column / WIDTH * WIDTH * quads * 4, quad = feature / 4 * 4 * WIDTH;
            packed[panel + quad + column % WIDTH * 4 + feature % 4] = weights[column * features + feature];
            offsets[column] += 128 * weights[column * features + feature];
        }
    Weights layer = {0, packed, bias, scales, offsets, features, columns, 0, 0};
    linear(x, rows, &layer, 0, out, malloc(rows * level_bytes(features)), malloc(rows * sizeof(float)), 1);
    return fwrite(out, sizeof(float), rows * columns, stdout) != (size_t)(rows * columns);
}
