// Exact sums of products of int8, four features at once, by what each kind of processor has. DOT says that there is a way.
//
// Inputs are quantised to `level`s: the integers -127 to 127, plus MIDDLE. `weights` are LANES columns with QUAD features each.
#pragma once
#include "vectors.h"

enum { QUAD = 4 }; // features that are multiplied together

#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__))
#include <immintrin.h>
#define DOT
enum { MIDDLE = 128 }; // the instruction multiplies unsigned inputs
typedef uint8_t level;
INLINE integers dot(integers sum, const level *x, integers weights) {
    int32_t inputs;
    memcpy(&inputs, x, QUAD);
#if defined(__AVX512F__)
    return (integers)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(inputs), (__m512i)weights);
#else
    return (integers)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32(inputs), (__m256i)weights);
#endif
}

#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
// Two products are added in 16 bits. 2 * 127 * 127 fits: the absolute value of an input times the weight with its sign.
#include <immintrin.h>
#define DOT
enum { MIDDLE = 0 };
typedef int8_t level;
INLINE integers dot(integers sum, const level *x, integers weights) {
    int32_t inputs;
    memcpy(&inputs, x, QUAD);
#if defined(__AVX512BW__)
    __m512i all = _mm512_set1_epi32(inputs), w = (__m512i)weights;
    w = _mm512_mask_sub_epi8(w, _mm512_movepi8_mask(all), _mm512_setzero_si512(), w);
    __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(all), w);
    return sum + (integers)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#else
    __m256i all = _mm256_set1_epi32(inputs);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(all), _mm256_sign_epi8((__m256i)weights, all));
    return sum + (integers)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define DOT
enum { MIDDLE = 0 };
typedef int8_t level;
INLINE integers dot(integers sum, const level *x, integers weights) {
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
enum { MIDDLE = 0 };
typedef int8_t level;
#endif
