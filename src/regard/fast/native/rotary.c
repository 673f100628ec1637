// Rotary position embedding.
#include "kernels.h"

// Features i and i + d/2 of each head are rotated together (Su et al. 2021), by angles of the row: `rotary` has rows of d sines and
// d cosines.
// x: rows of `x_row` floats; out: rows x heads x d.
void rotate(const float *x, long x_row, long rows, long heads, long d, const float *rotary, float *out) {
    for (long row = 0; row < rows; row++, x += x_row, out += heads * d) {
        const float *sine = rotary + row * 2 * d, *cosine = sine + d;
        for (long head = 0; head < heads * d; head += d)
            for (long left = 0, right = d / 2; left < d / 2; left++, right++) {
                out[head + left] = x[head + left] * cosine[left] - x[head + right] * sine[left];
                out[head + right] = x[head + right] * cosine[right] + x[head + left] * sine[right];
            }
    }
}

// The same for training: the first `rotary_dim` of d features of batch x heads x positions, by sines and cosines of each position;
// sign -1: back. x has these strides; out: batch x positions x heads x d.
void rotate_positions(const float *x, long batch_step, long head_step, long position_step, long batch, long heads, long positions,
                      long d, long rotary_dim, const float *sines, const float *cosines, float sign, float *out, int threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < batch * positions; row++) {
        const float *sine = sines + row % positions * rotary_dim, *cosine = cosines + row % positions * rotary_dim;
        const float *first = x + row / positions * batch_step + row % positions * position_step;
        for (long head = 0; head < heads; head++) {
            const float *from = first + head * head_step;
            float *to = out + (row * heads + head) * d;
            for (long left = 0, right = rotary_dim / 2; left < rotary_dim / 2; left++, right++) {
                to[left] = from[left] * cosine[left] - sign * from[right] * sine[left];
                to[right] = from[right] * cosine[right] + sign * from[left] * sine[right];
            }
            for (long place = rotary_dim; place < d; place++) to[place] = from[place];
        }
    }
}
