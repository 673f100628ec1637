// The functions of the files of this folder; each file documents the memory layout of its arguments.
#pragma once
#include "product.h"

enum { WORTH = 1 << 19 }; // multiplications; fewer are done by a single thread, because starting others takes longer

// The sizes of an attention. Each group of keys is shared by the queries of `queries_per_group` neighbouring heads.
typedef struct {
    long rows, groups, queries_per_group, d;
    long weights_row; // floats allocated for a head's weights, at least positions + LANES - 1
    float scale;
    int threads;
} Heads;

int embed(const int64_t *ids, long rows, const float *table, long size, long features, float scale, const float *plus, float *out);
void linear(const float *x, long rows, const Weights *weights, const float *residual, float *out, void *levels,
            float *level_scales, int threads);
void norm(const float *x, long rows, long features, int center, float eps, const float *gain, const float *bias, float *out);
void activate(const float *x, long x_row, const float *times, long times_row, long rows, long features, int kind, float *out);
void rotate(const float *x, long x_row, long rows, long heads, long d, const float *rotary, float *out);
void attend_to_memory(const Heads *heads, const float *query, long query_row, const float *key, long key_row,
                      const float *value, long value_row, const int64_t *starts, const int64_t *lengths, float *weights,
                      float *out);
void attend_to_self(const Heads *heads, const float *query, long query_row, const float *key, long key_row, const float *value,
                    long value_row, float *keys, float *values, int32_t *table, long table_row, const int32_t *slots,
                    const int64_t *begins, const int64_t *positions, float *weights, float *out);

// Of sampling; these change nothing: temperature 1, top_k 0, top_p 1, min_p 0.
typedef struct {
    float temperature, top_p, min_p;
    long top_k;
} Filters;

void sample_tokens(const float *logits, long rows, long vocab, const int64_t *banned, long num_banned, long banned_row, const Filters *filters,
          const double *noise, const int64_t *asked, float *values, int64_t *ids, float *asked_log_probs, float *log_sums, float *weights, void *tokens,
          int threads);

typedef struct Statistics Statistics; // of top_candidates.c
void top_candidates(const float *x, long rows, const Weights *weights, const int64_t *asked, long size, float *values,
                    int64_t *ids, float *asked_log_probs, float *block, Statistics *statistics, void *levels,
                    float *level_scales, int threads);
