// The most likely outputs of a linear layer and softmax, found while the logits are computed, which are not stored.
#include "kernels.h"

enum { BLOCK = 32 * WIDTH, CHUNK = 4 * LANES }; // outputs that are searched while they are in the processor's cache

// A row's statistics over the outputs so far; `sum` is that of e^(output - maximum).
struct Statistics {
    float *values; // the `size` largest in descending order; of equal ones the lower number comes first
    int64_t *ids;
    long size;
    float maximum;
    double sum;
};

int block_size(void) { return BLOCK; }
int statistics_size(void) { return sizeof(Statistics); }

INLINE int exceeds(const float *outputs, float value) {
    integers found = {0};
    for (int lane = 0; lane < CHUNK; lane += LANES) found |= LOAD(outputs + lane) > value;
    int64_t words[LANES / 2], any = 0;
    memcpy(words, &found, sizeof words);
    for (int word = 0; word < LANES / 2; word++) any |= words[word];
    return any != 0;
}

INLINE void insert(Statistics *statistics, float value, int64_t id) {
    long place = statistics->size - 1;
    for (; place > 0 && statistics->values[place - 1] < value; place--) {
        statistics->values[place] = statistics->values[place - 1];
        statistics->ids[place] = statistics->ids[place - 1];
    }
    statistics->values[place] = value;
    statistics->ids[place] = id;
}

// Add `count` outputs, numbered from `first`; the memory after them is allocated up to a whole chunk.
static void update(Statistics *statistics, float *outputs, long count, int64_t first) {
    long padded = (count + CHUNK - 1) / CHUNK * CHUNK;
    for (long place = count; place < padded; place++) outputs[place] = -INFINITY;
    vector maxima = LOAD(outputs), sums = {0};
    for (long place = LANES; place < padded; place += LANES) maxima = larger(maxima, LOAD(outputs + place));
    float maximum = statistics->maximum;
    for (int lane = 0; lane < LANES; lane++) maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
    if (maximum == -INFINITY) { // all are minus infinity or NaN
        for (long place = 0; place < count; place++)
            if (outputs[place] != outputs[place]) statistics->sum = NAN;
        return;
    }
    for (long place = 0; place < padded; place += LANES) sums += exponential(LOAD(outputs + place) - maximum);
    statistics->sum = statistics->sum * exp((double)statistics->maximum - maximum) + total(sums);
    statistics->maximum = maximum;
    for (long place = 0; place < padded; place += CHUNK) {
        if (!exceeds(outputs + place, statistics->values[statistics->size - 1])) continue;
        for (long each = place; each < place + CHUNK; each++)
            if (outputs[each] > statistics->values[statistics->size - 1]) insert(statistics, outputs[each], first + each);
    }
}

// The outputs of all rows, block by block, and what is best among them. Called by each thread of a team, or by one alone.
static void rank_blocks(Inputs inputs, const Weights *weights, const int64_t *asked, long size, float *values, int64_t *ids,
                        float *asked_log_probs, float *block, Statistics *statistics) {
    for (long first = 0; first < weights->columns; first += BLOCK) {
        long count = weights->columns - first < BLOCK ? weights->columns - first : BLOCK;
#pragma omp for
        for (long column = 0; column < count; column += GROUP * WIDTH)
            multiply(inputs, weights, first + column, 0, block + column, BLOCK);
#pragma omp for
        for (long row = 0; row < inputs.rows; row++) {
            float *outputs = block + row * BLOCK, *best = values + row * size;
            if (!first) {
                statistics[row] = (Statistics){best, ids + row * size, size, -INFINITY, 0};
                for (long place = 0; place < size; place++) best[place] = -INFINITY, ids[row * size + place] = 0;
            }
            if (asked[row] >= first && asked[row] < first + count) asked_log_probs[row] = outputs[asked[row] - first];
            update(statistics + row, outputs, count, first);
        }
    }
}

// log softmax(x W + bias): the `size` largest of each row and their numbers, and the value of the output `asked`.
// Scratch: `block` for rows x BLOCK outputs, `statistics` for one Statistics per row, `levels` and `level_scales` as in `linear`.
void top_candidates(const float *x, long rows, const Weights *weights, const int64_t *asked, long size, float *values,
                    int64_t *ids, float *asked_log_probs, float *block, Statistics *statistics, void *levels,
                    float *level_scales, int threads) {
    Inputs inputs = inputs_of(x, rows, weights, levels, level_scales, threads);
    if (threads == 1) rank_blocks(inputs, weights, asked, size, values, ids, asked_log_probs, block, statistics);
    else {
#pragma omp parallel num_threads(threads)
        rank_blocks(inputs, weights, asked, size, values, ids, asked_log_probs, block, statistics);
    }
    for (long row = 0; row < rows; row++) {
        float shift = statistics[row].maximum + (float)log(statistics[row].sum);
        for (long place = 0; place < size; place++) values[row * size + place] -= shift;
        asked_log_probs[row] -= shift;
    }
}
