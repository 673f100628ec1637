// Rotary position embedding.
#include "kernels.h"

// Features i and i + d/2 of each head are rotated together (Su et al. 2021), by angles of the row: `turns` has rows of d sines and
// d cosines.
// x: rows of `x_row` floats; out: rows x heads x d.
void rotate(const float *x, long x_row, long rows, long heads, long d, const float *turns, float *out) {
    for (long row = 0; row < rows; row++, x += x_row, out += heads * d) {
        const float *sine = turns + row * 2 * d, *cosine = sine + d;
        for (long head = 0; head < heads * d; head += d)
            for (long left = 0, right = d / 2; left < d / 2; left++, right++) {
                out[head + left] = x[head + left] * cosine[left] - x[head + right] * sine[left];
                out[head + right] = x[head + right] * cosine[right] + x[head + left] * sine[right];
            }
    }
}
