// Vectors of float32 as wide as the processor's, by the vector extensions of GCC and Clang: one source for all processors.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define AT(address) (*(vector *)(address))
#define LOAD(address) (*(const vector *)(address))
#define INLINE static inline __attribute__((always_inline))

// A loop by several threads; for one without OpenMP, whose team of one takes a microsecond, as long as a small product.
#define PARALLEL(threads, ...) \
    if (threads > 1) { \
        _Pragma("omp parallel for num_threads(threads)") __VA_ARGS__ \
    } else { \
        __VA_ARGS__ \
    }

// The first row of a thread's part.
INLINE long part(long rows, int thread, int threads) { return rows * thread / threads; }

INLINE vector larger(vector a, vector b) {
    integers less = a < b;
    return (vector)((less & (integers)b) | (~less & (integers)a));
}

INLINE float total(vector sums) {
    typedef float half __attribute__((vector_size(2 * LANES), aligned(4), may_alias));
    typedef float quarter __attribute__((vector_size(LANES), aligned(4), may_alias));
    half two = ((half *)&sums)[0] + ((half *)&sums)[1];
    quarter four = ((quarter *)&two)[0] + ((quarter *)&two)[1];
    float sum = four[0];
    for (int lane = 1; lane < LANES / 4; lane++) sum += four[lane];
    return sum;
}

// e^x for x <= 0, to two units in the last place; 0 below -87. (Cody and Waite's reduction, a polynomial of degree 6.)
INLINE vector exponential(vector x) {
    vector least = (vector){0} - 87.0f;
    integers far = x < least;
    x = (vector)(((integers)least & far) | ((integers)x & ~far));
    vector whole = x * 1.44269504f + 12582912.0f; // the sum's last bits are the nearest whole number
    integers power = ((integers)whole - 0x4B400000) << 23;
    whole -= 12582912.0f;
    vector rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vector sum = rest * 1.3981999507e-3f + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    return (vector)(((integers)sum + power) & ~far);
}
