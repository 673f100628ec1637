// A sequence of kernel calls and what a run of it reads and writes (plan.c).
#pragma once
#include "kernels.h"

enum { EMBED, LINEAR, NORM, ACTIVATE, ROTATE, TO_SELF, TO_MEMORY, ADD }; // a call's `kind`
enum { NO_OPERAND = -1, INPUT = -2, OUTPUT = -3 }; // an operand's `offset`, if it is not in the buffer

// The part of rows of `width` floats that begins at `column`. `offset`: its place in the buffer, in floats per row.
typedef struct {
    long offset, width, column;
} Operand;

typedef struct {
    Operand x, y, z, out; // y: a residual, or a factor, or keys; z: values
    long kind, features, heads, groups, layer;
    const void *weights, *bias; // Weights; or the gain and the bias of a norm; or an embedding table with `layer` rows
    float number; // epsilon, or the scale of scores or of embeddings
    int flag;     // norm: whether the mean is subtracted; activation: which one
} Call;

// The inputs of a run, its memory, and the keys and values of attention, layer by layer (attention.c).
typedef struct {
    const void *input; // of the first call: rows of floats, or ids
    float *output, *buffer, *scores; // scores: threads x heads x weights_row
    void *levels;                // int8: scratch for the widest inputs; `level_scales`: one float per row
    float *level_scales;
    const float *plus, *rotary; // of the position of each row
    float **keys, **values;
    int32_t *table;
    const int32_t *slots;
    const int64_t *begins, *positions;
    const float **memory_keys, **memory_values;
    const int64_t *starts, *lengths;
    long rows, table_row, seen, longest, threads; // seen: positions to which a row attends, at most; longest: the same of a memory
} Run;

// Returns 0, or 1 where an id has no embedding.
int run_plan(const Call *calls, long count, const Run *run);
