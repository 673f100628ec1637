// Sampling: the filters of decoding/sampling.py, and the token that noise chooses among what they keep.
#include "kernels.h"
#include <stdlib.h>

enum { BUCKETS = 1024 }; // of positive floats up to 1: exponent and three bits of the mantissa
enum { BLOCK = 32 * LANES }; // weights that are added up together

typedef struct {
    float weight;
    int32_t id;
} Token;

static int before(const void *one, const void *other) { // in descending order, of equal ones the lower id first
    const Token *a = one, *b = other;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

INLINE long padded(long vocab) { return (vocab + LANES - 1) / LANES * LANES; }

INLINE int bucket_of(float weight) {
    int32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> 20;
}

// Keep the greatest weights, of equal ones those of lower ids: `most` at most, and as many as it takes to add up to `mass`. The others
// become 0. Only the weights of the bucket in which the last one lies are sorted. tokens: scratch.
static void keep_greatest(float *weights, long count, long most, double mass, Token *tokens) {
    long counts[BUCKETS] = {0}, kept = 0, found = 0;
    double masses[BUCKETS] = {0}, sum = 0;
    for (long id = 0; id < count; id++) {
        int bucket = bucket_of(weights[id]);
        counts[bucket]++, masses[bucket] += weights[id];
    }
    int last = BUCKETS - 1;
    for (; last > 0 && kept + counts[last] <= most && sum + masses[last] < mass; last--) kept += counts[last], sum += masses[last];
    for (long id = 0; id < count; id++) {
        int bucket = bucket_of(weights[id]);
        if (bucket == last && weights[id]) tokens[found++] = (Token){weights[id], (int32_t)id};
        if (bucket <= last) weights[id] = 0;
    }
    qsort(tokens, found, sizeof *tokens, before);
    for (long place = 0; place < found && kept < most && sum < mass; kept++, sum += tokens[place++].weight)
        weights[tokens[place].id] = tokens[place].weight;
}

// Weights: e^(l / temperature - the greatest), 0 for banned tokens and for padding. Returns 0 if all are banned. `greatest` may be NULL.
static int weigh(const float *logits, long vocab, const int64_t *banned, long num_banned, float temperature, float *weights,
                 float *greatest) {
    vector greater = (vector){0} - INFINITY;
    float maximum = -INFINITY;
    for (long id = 0; id < vocab; id++) weights[id] = logits[id] / temperature;
    for (long id = vocab; id < padded(vocab); id++) weights[id] = -INFINITY;
    for (long each = 0; each < num_banned; each++)
        if (banned[each] >= 0 && banned[each] < vocab) weights[banned[each]] = -INFINITY;
    for (long id = 0; id < vocab; id += LANES) greater = larger(greater, LOAD(weights + id));
    for (int lane = 0; lane < LANES; lane++) maximum = greater[lane] > maximum ? greater[lane] : maximum;
    if (greatest) *greatest = maximum;
    if (maximum == -INFINITY) return 0;
    for (long id = 0; id < vocab; id += LANES) AT(weights + id) = exponential(LOAD(weights + id) - maximum);
    return 1;
}

// The sum of a block of weights.
INLINE double block_sum(const float *weights, long first, long vocab) {
    vector sums = {0};
    for (long id = first; id < vocab && id < first + BLOCK; id += LANES) sums += LOAD(weights + id);
    return total(sums);
}

static double mass_of(const float *weights, long vocab) {
    double sum = 0;
    for (long first = 0; first < vocab; first += BLOCK) sum += block_sum(weights, first, vocab);
    return sum;
}

// The logarithm of the sum of e^(l - the greatest); NaN if a logit is NaN or infinite.
static float log_sum(const float *logits, long vocab, float *weights, float *greatest) {
    int is_nan = 0;
    for (long id = 0; id < vocab; id++) is_nan |= logits[id] != logits[id];
    if (is_nan || !weigh(logits, vocab, 0, 0, 1, weights, greatest) || !isfinite(*greatest)) return NAN;
    return (float)log(mass_of(weights, vocab));
}

// The id at which the sum of the weights exceeds `noise` of the whole: first its block, then its place there.
static int64_t token_at(const float *weights, long vocab, double noise) {
    double height = noise * mass_of(weights, vocab), sum = 0;
    int64_t found = 0;
    for (long first = 0; first < vocab; first += BLOCK) {
        double more = block_sum(weights, first, vocab);
        if (sum + more <= height) {
            sum += more;
            continue;
        }
        for (long id = first; id < vocab && sum <= height; id++)
            if (weights[id]) found = id, sum += weights[id];
        break;
    }
    return found;
}

// A token of each row and its log-probability, which no filter changes: -inf if all are banned, NaN if the logits are no numbers.
// logits: rows x vocab; banned: `banned_row` ids for each row, or 0: the same for all. The log-probabilities of `asked` are given, too, and
// the `log_sum` of each row, if it is not NULL: log-probabilities are logits - the greatest - it.
// scratch: threads x vocab tokens, and as many weights, padded to vectors.
void sample_tokens(const float *logits, long rows, long vocab, const int64_t *banned, long num_banned, long banned_row, const Filters *filters,
          const double *noise, const int64_t *asked, float *values, int64_t *ids, float *asked_log_probs, float *log_sums, float *weights, void *tokens,
          int threads) {
    PARALLEL(threads, for (int thread = 0; thread < threads; thread++)
        for (long row = part(rows, thread, threads); row < part(rows, thread + 1, threads); row++) {
            const float *own = logits + row * vocab;
            float *left = weights + thread * padded(vocab), greatest, sum = log_sum(own, vocab, left, &greatest);
            Token *room = (Token *)tokens + thread * vocab;
            if (log_sums) log_sums[row] = sum;
            asked_log_probs[row] = own[asked[row]] - greatest - sum;
            ids[row] = 0, values[row] = isfinite(sum) ? -INFINITY : NAN;
            if (!isfinite(sum) || !weigh(own, vocab, banned + row * banned_row, num_banned, filters->temperature, left, 0)) continue;
            if (filters->top_k) keep_greatest(left, vocab, filters->top_k, INFINITY, room);
            if (filters->top_p < 1) keep_greatest(left, vocab, vocab, filters->top_p * mass_of(left, vocab), room);
            for (long id = 0; filters->min_p && id < vocab; id++)
                if (left[id] < filters->min_p) left[id] = 0;
            ids[row] = token_at(left, vocab, noise[row]);
            values[row] = own[ids[row]] - greatest - sum;
        })
}
