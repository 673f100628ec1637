// Dropout by 16 random bits of each element.
#pragma once
#include "vectors.h"

typedef int16_t shorts __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

// An element is set to 0 (even NaN) if its 16 random bits are below `dropped`; the others are multiplied by `kept`.
typedef struct {
    const int16_t *bits; // or NULL: nothing is dropped
    int dropped;
    float kept;
} Dropout;

INLINE vector left_of(vector x, Dropout dropout, long place) {
    if (!dropout.bits) return x;
    integers bits = __builtin_convertvector(*(const shorts *)(dropout.bits + place), integers);
    return (vector)((integers)(x * dropout.kept) & (bits >= dropout.dropped));
}

INLINE float one_left_of(float x, Dropout dropout, long place) {
    if (!dropout.bits) return x;
    return dropout.bits[place] >= dropout.dropped ? x * dropout.kept : 0;
}
