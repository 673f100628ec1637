// Steps of greedy or beam search, or of sampling, by one call, until something happens that is left to the caller.
//
// For one sentence a step takes longer in Python than in the kernels.
#include "plan.h"

// Greedy or sampled hypotheses, one a row; or the beam of one sentence, whose rows have all read equally much and are at most `size`.
typedef struct {
    const Weights *output; // the output layer
    float *values;         // the candidates of the last step, as of top_candidates: rows x candidates
    int64_t *ids;
    float *asked_log_probs; // of the ids `asked`
    const int64_t *asked;
    float *block; // scratch of top_candidates
    Statistics *statistics;
    int64_t *last;     // the last id of each row, the plan's input
    int64_t *ranks;    // of each row in the beam, or among the hypotheses of its sentence
    int64_t *origins;  // of each row that which it continues, as they were numbered before the first step
    double *log_probs; // of each row
    int64_t *tokens;   // rows x steps: what each row was continued by
    double *gains;     // the log-probability of each
    char *scratch;     // a row of a table for each row
    const int64_t *banned, *ends;
    const Filters *filters;  // of sampling, or NULL: the most likely token. With them one candidate is sampled for each row
    double *noise;           // of each step and row
    float *logits, *weights; // rows x columns; scratch of `sample_tokens`, as `kept_tokens`
    void *kept_tokens;
    const double *penalties; // the divisor of the log-probability of a hypothesis that ends at each step; or NULL: none is dropped
    int64_t *ended_origins, *ended_lengths, *ended_tokens; // of each hypothesis that ended; as `origins`, in steps, as `tokens`
    double *ended_gains, *ended_totals; // as `gains`, with that of the end; the log-probability
    long num_banned, num_ends, steps, candidates, plus_features, rotary_features;
    long size;           // of the beam; 0: the rows are hypotheses by themselves
    long most_ends;      // so many hypotheses of a beam may end before the caller is asked
    long sampling_threads;
    double greatest;     // a candidate of a beam is kept if its log-probability / greatest > bar,
    double bar;          // the best score of those that ended
    float scale;         // of the plan's results
    long rows, num_ended; // how many rows there are, and how many hypotheses ended: both change
} Search;

typedef struct {
    double total, gain;
    int64_t id;
    long row;
} Choice;

INLINE int is_among(int64_t id, const int64_t *ids, long count) {
    for (long each = 0; each < count; each++)
        if (ids[each] == id) return 1;
    return 0;
}

INLINE Choice choice_of(const Search *search, long row, long place) {
    double gain = search->values[row * search->candidates + place];
    return (Choice){search->log_probs[row] + gain, gain, search->ids[row * search->candidates + place], row};
}

// Of equal ones the lower id comes first, then the better parent.
INLINE int comes_before(const Search *search, Choice one, Choice other) {
    if (one.total != other.total) return one.total > other.total;
    return one.id != other.id ? one.id < other.id : search->ranks[one.row] < search->ranks[other.row];
}

// The best next token of each row: of those that continue, and of those that end. Returns how many continue; 0 if a row has no token.
static long choose_greedily(const Search *search, Choice *chosen, Choice *ended, long *num_ended) {
    long count = 0;
    *num_ended = 0;
    for (long row = 0; row < search->rows; row++) {
        const int64_t *ids = search->ids + row * search->candidates;
        long place = 0;
        while (place < search->candidates && is_among(ids[place], search->banned, search->num_banned)) place++;
        if (place == search->candidates || !isfinite(search->values[row * search->candidates + place])) return 0;
        Choice best = choice_of(search, row, place);
        if (is_among(best.id, search->ends, search->num_ends)) ended[(*num_ended)++] = best;
        else chosen[count++] = best;
    }
    return count;
}

// The candidates of a row that are not banned, best first. The kernel's order is that of the logits: of two that differ by less than
// a log-probability can, the higher id may come first. Returns how many; -1 if one is not finite.
static long candidates_of(const Search *search, long row, Choice *found) {
    long most = search->candidates - search->num_banned, count = 0;
    for (long place = 0; place < search->candidates; place++) {
        Choice each = choice_of(search, row, place);
        if (!isfinite(each.gain)) return -1; // NaN, or few tokens
        if (count == most || is_among(each.id, search->banned, search->num_banned)) continue;
        long at = count++;
        for (; at > 0 && comes_before(search, each, found[at - 1]); at--) found[at] = found[at - 1];
        found[at] = each;
    }
    return count;
}

// The candidates of a beam that do not end, best first, and those that end: among the first `size`. Returns how many do not; 0 if none
// does, or if the caller is to decide.
static long choose_of_beam(const Search *search, Choice *chosen, Choice *ended, long *num_ended) {
    long size = search->size, rows = search->rows, most = size * (1 + search->num_ends), count = 0;
    long places[rows], counts[rows];
    Choice found[rows][search->candidates];
    *num_ended = 0;
    for (long row = 0; row < rows; row++) {
        places[row] = 0;
        if ((counts[row] = candidates_of(search, row, found[row])) < 0) return 0;
    }
    for (long number = 0; number < most && count < size; number++) {
        Choice best = {0, 0, 0, -1};
        for (long row = 0; row < rows; row++) {
            if (places[row] == counts[row]) continue;
            Choice each = found[row][places[row]];
            if (best.row < 0 || comes_before(search, each, best)) best = each;
        }
        if (best.row < 0) break;
        places[best.row]++;
        if (!is_among(best.id, search->ends, search->num_ends)) chosen[count++] = best;
        else if (number < size) ended[(*num_ended)++] = best;
    }
    return search->num_ended + *num_ended > search->most_ends ? 0 : count;
}

// Keep those that could still score better than the best of those that ended. Returns how many.
static long keep_possible(const Search *search, Choice *chosen, long count) {
    long kept = 0;
    for (long each = 0; each < count; each++)
        if (chosen[each].total / search->greatest > search->bar) chosen[kept++] = chosen[each];
    return kept;
}

static void note_ended(Search *search, long step, const Choice *ended, long count) {
    for (long each = 0; each < count; each++) {
        long number = search->num_ended++, steps = search->steps, row = ended[each].row;
        search->ended_origins[number] = search->origins[row];
        search->ended_lengths[number] = step;
        memcpy(search->ended_tokens + number * steps, search->tokens + row * steps, step * 8);
        memcpy(search->ended_gains + number * steps, search->gains + row * steps, step * 8);
        search->ended_gains[number * steps + step] = ended[each].gain;
        search->ended_totals[number] = ended[each].total;
    }
}

// Row i becomes what row `chosen[i].row` was. table: rows of `row` bytes, of which the first `used` matter.
static void move(void *table, long row, long used, long count, const Choice *chosen, char *scratch) {
    for (long each = 0; each < count; each++) memcpy(scratch + each * used, (char *)table + chosen[each].row * row, used);
    for (long each = 0; each < count; each++) memcpy((char *)table + each * row, scratch + each * used, used);
}

// The number of positions that a row has read by now, at most.
static long positions_of(const Run *run) {
    long most = 0;
    for (long row = 0; row < run->rows; row++)
        if (run->positions[row] >= most) most = run->positions[row] + 1;
    return most;
}

static void continue_rows(Search *search, const Run *run, long step, const Choice *chosen, long count) {
    long row = search->steps * 8;
    if (search->size || count < search->rows) { // else each row continues itself
        move(run->table, run->table_row * 4, positions_of(run) * 4, count, chosen, search->scratch);
        move(search->tokens, row, step * 8, count, chosen, search->scratch);
        move(search->gains, row, step * 8, count, chosen, search->scratch);
        move(search->origins, 8, 8, count, chosen, search->scratch);
        move(search->ranks, 8, 8, count, chosen, search->scratch);
        if (run->starts) { // of a beam all are equal
            move((void *)run->starts, 8, 8, count, chosen, search->scratch);
            move((void *)run->lengths, 8, 8, count, chosen, search->scratch);
        }
    }
    for (long each = 0; search->size && each < count; each++) search->ranks[each] = each;
    for (long each = 0; each < count; each++) {
        search->last[each] = search->tokens[each * search->steps + step] = chosen[each].id;
        search->gains[each * search->steps + step] = chosen[each].gain;
        search->log_probs[each] = chosen[each].total;
    }
    search->rows = count;
}

// One step's choice. Returns 0 if it is left to the caller; then no row has changed.
static int advance(Search *search, const Run *run, long step) {
    Choice chosen[search->rows + search->size], ended[search->rows + search->size];
    long num_ended = 0, count;
    if (!search->size) {
        count = choose_greedily(search, chosen, ended, &num_ended);
    } else {
        count = choose_of_beam(search, chosen, ended, &num_ended);
        for (long each = 0; each < num_ended; each++) {
            double score = search->penalties ? ended[each].total / search->penalties[step] : -INFINITY;
            if (score > search->bar) search->bar = score;
        }
        count = keep_possible(search, chosen, count);
    }
    if (!count) return 0;
    note_ended(search, step, ended, num_ended);
    continue_rows(search, run, step, chosen, count);
    return 1;
}

// Let the step's inputs be those of the rows that are left: row i was row `origins[i]`, which does not come before it. Slots are alike.
static void leave_out_ended(Run *run, const Search *search) {
    int64_t *begins = (int64_t *)run->begins, *positions = (int64_t *)run->positions;
    float *plus = (float *)run->plus, *rotary = (float *)run->rotary;
    long wide = search->plus_features, turning = search->rotary_features;
    for (long row = 0; row < search->rows; row++) {
        long origin = search->origins[row];
        begins[row] = begins[origin], positions[row] = positions[origin];
        if (plus) memmove(plus + row * wide, plus + origin * wide, wide * 4);
        if (rotary) memmove(rotary + row * turning, rotary + origin * turning, turning * 4);
        if (search->filters) search->noise[row] = search->noise[origin];
    }
}

// The candidates of each row after the plan has run.
static void find_candidates(const Search *search, const Run *run) {
    const Weights *output = search->output;
    long rows = run->rows;
    int threads = rows * output->features * output->columns >= WORTH ? (int)run->threads : 1;
    if (!search->filters) {
        top_candidates(run->output, rows, output, search->asked, search->candidates, search->values, search->ids,
                       search->asked_log_probs, search->block, search->statistics, run->levels, run->level_scales, threads);
        return;
    }
    linear(run->output, rows, output, 0, search->logits, run->levels, run->level_scales, threads);
    sample_tokens(search->logits, rows, output->columns, search->banned, search->num_banned, 0, search->filters, search->noise, search->asked,
         search->values, search->ids, search->asked_log_probs, 0, search->weights, search->kept_tokens,
         (int)search->sampling_threads);
}

// Run the plan `steps` times at most: until a step whose candidates the caller is to choose from. Returns the number of steps before
// it, or -1 where an id has no embedding. The run's inputs are those of `steps` steps, one after the other, with vectors, slots and
// positions for as many rows as there may be.
long run_steps(const Call *calls, long count, const Run *inputs, Search *search) {
    Run run = *inputs;
    long most = search->size ? search->size : search->rows, features = search->output->features;
    for (long step = 0;; step++) {
        run.rows = search->rows;
        if (run_plan(calls, count, &run)) return -1;
        if (search->scale != 1)
            for (long place = 0; place < run.rows * features; place++) run.output[place] *= search->scale;
        find_candidates(search, &run);
        if (step + 1 == search->steps || !advance(search, &run, step)) return step;
        if (search->filters) search->noise += most;
        run.slots += most, run.begins += most, run.positions += most;
        if (run.plus) run.plus += most * search->plus_features;
        if (run.rotary) run.rotary += most * search->rotary_features;
        if (!search->size && search->rows < most) leave_out_ended(&run, search);
    }
}
