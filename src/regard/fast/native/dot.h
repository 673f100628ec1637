// Exact sums of products of int8, four features at once, by what each kind of processor has. DOT says that there is a way.
//
// Inputs are quantised to `level`s: the integers -127 to 127, plus MIDDLE; with SIGNS their absolute values, and then the signs.
// `features`: of a row, a multiple of QUAD. `weights` are LANES columns with QUAD features each.
#pragma once
#include "vectors.h"

enum { QUAD = 4 }; // features that are multiplied together

#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__))
#include <immintrin.h>
#define DOT
enum { MIDDLE = 128, SIGNS = 0 }; // the instruction multiplies unsigned inputs
typedef uint8_t level;
INLINE integers dot(integers sum, const level *x, long features, integers weights) {
    (void)features;
    int32_t inputs;
    memcpy(&inputs, x, QUAD);
#if defined(__AVX512F__)
    return (integers)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(inputs), (__m512i)weights);
#else
    return (integers)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32(inputs), (__m256i)weights);
#endif
}

#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
// The instruction multiplies unsigned inputs and adds two products in 16 bits, where 2 * 127 * 128 has room. So a row has the
// absolute values of its levels, then -1 for each negative one and 0 for the others. x w = |x| (w ^ -1) + |x| for x < 0:
// the sum of these |x|, an int32 behind the rest, is the same for all columns.
#include <immintrin.h>
#define DOT
enum { MIDDLE = 0, SIGNS = 1 };
typedef uint8_t level;
INLINE integers dot(integers sum, const level *x, long features, integers weights) {
    int32_t sizes, signs;
    memcpy(&sizes, x, QUAD);
    memcpy(&signs, x + features, QUAD);
#if defined(__AVX512BW__)
    __m512i signed_weights = _mm512_xor_si512((__m512i)weights, _mm512_set1_epi32(signs));
    __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi32(sizes), signed_weights);
    return sum + (integers)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#else
    __m256i signed_weights = _mm256_xor_si256((__m256i)weights, _mm256_set1_epi32(signs));
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(sizes), signed_weights);
    return sum + (integers)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define DOT
enum { MIDDLE = 0, SIGNS = 0 };
typedef int8_t level;
INLINE integers dot(integers sum, const level *x, long features, integers weights) {
    (void)features;
    int32_t inputs;
    memcpy(&inputs, x, QUAD);
    int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(inputs)), w = (int8x16_t)weights;
#if defined(__ARM_FEATURE_DOTPROD)
    return (integers)vdotq_s32((int32x4_t)sum, w, all);
#else // two products of at most 127 * 127 fit into 16 bits
    int16x8_t left = vmull_s8(vget_low_s8(w), vget_low_s8(all)), right = vmull_high_s8(w, all);
    return (integers)vpadalq_s16((int32x4_t)sum, vpaddq_s16(left, right));
#endif
}

#else
enum { MIDDLE = 0, SIGNS = 0 };
typedef int8_t level;
#endif
