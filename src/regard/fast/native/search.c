// Steps of greedy or beam search by one call, as long as no hypothesis ends or is dropped.
//
// For one sentence a step takes longer in Python than in the kernels.
#include "plan.h"

// Rows come in groups of `size`: the beam of a sentence, or a greedy hypothesis. All rows of a beam have read equally much.
typedef struct {
    const Weights *output; // the output layer
    float *values;         // the candidates of the last step, as of top_candidates: rows x candidates
    int64_t *ids;
    float *asked_log_probs; // of the ids `asked`
    const int64_t *asked;
    float *block; // scratch of top_candidates
    Statistics *statistics;
    int64_t *last;     // the last id of each row, the plan's input
    int64_t *ranks;    // of each row in its group
    int64_t *origins;  // the row at first that each row continues
    double *log_probs; // of each row
    int64_t *tokens;   // rows x steps: what each row was continued by
    double *gains;     // the log-probability of each
    char *room;        // scratch: a row of each table of a group
    const int64_t *banned, *ends;
    const double *bars, *greatest; // of each group: a candidate goes on if log-probability / greatest > bar
    long num_banned, num_ends, size, steps, candidates, plus_features, turns_features;
    float scale; // of the plan's results
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

// The best candidates of a group, best first; of equal ones the lower id comes first, then the better parent. Returns 0 if one of
// them ends, or is dropped.
static int choose(const Search *search, long first, Choice *chosen) {
    long size = search->size, places[size];
    memset(places, 0, sizeof places);
    for (long rank = 0; rank < size; rank++) {
        Choice best = {-INFINITY, 0, 0, -1};
        for (long each = 0; each < size; each++) {
            long row = first + each, *place = places + each;
            const float *values = search->values + row * search->candidates;
            const int64_t *ids = search->ids + row * search->candidates;
            while (*place < search->candidates && is_among(ids[*place], search->banned, search->num_banned)) ++*place;
            if (*place == search->candidates) continue;
            if (!isfinite(values[*place])) return 0; // NaN, or no choice; or fewer candidates than the beam has room for
            Choice found = {search->log_probs[row] + values[*place], values[*place], ids[*place], row};
            if (best.row < 0 || found.total > best.total ||
                (found.total == best.total &&
                 (found.id < best.id || (found.id == best.id && search->ranks[row] < search->ranks[best.row]))))
                best = found;
        }
        long group = first / size;
        if (best.row < 0 || is_among(best.id, search->ends, search->num_ends)) return 0;
        if (!(best.total / search->greatest[group] > search->bars[group])) return 0;
        places[best.row - first]++;
        chosen[rank] = best;
    }
    return 1;
}

// Row i of a group becomes what row `chosen[i].row` was. table: rows of `row` bytes, of which the first `used` matter.
static void move(void *table, long row, long used, long first, long size, const Choice *chosen, char *room) {
    char *rows = table;
    for (long each = 0; each < size; each++) memcpy(room + each * used, rows + (first + each) * row, used);
    for (long each = 0; each < size; each++)
        if (chosen[each].row != first + each) memcpy(rows + (first + each) * row, room + (chosen[each].row - first) * used, used);
}

static void continue_group(const Search *search, const Run *run, long first, long step, const Choice *chosen) {
    long size = search->size, row = search->steps * 8;
    move(run->table, run->table_row * 4, (run->positions[first] + 1) * 4, first, size, chosen, search->room);
    move(search->tokens, row, step * 8, first, size, chosen, search->room);
    move(search->gains, row, step * 8, first, size, chosen, search->room);
    move(search->origins, 8, 8, first, size, chosen, search->room);
    for (long each = 0; each < size; each++) {
        long place = first + each;
        search->last[place] = search->tokens[place * search->steps + step] = chosen[each].id;
        search->gains[place * search->steps + step] = chosen[each].gain;
        search->log_probs[place] = chosen[each].total;
        search->ranks[place] = each;
    }
}

// Run the plan `steps` times at most: until a hypothesis ends or is dropped, which is left to the caller, with the candidates of
// that step. Returns the number of steps before it, or -1 where an id has no embedding. The run's inputs are those of `steps` steps,
// one after the other.
long run_steps(const Call *calls, long count, const Run *inputs, const Search *search) {
    Run run = *inputs;
    long rows = run.rows, features = search->output->features;
    int threads = rows * features * search->output->columns >= WORTH ? (int)run.threads : 1;
    for (long step = 0;; step++) {
        if (run_plan(calls, count, &run)) return -1;
        if (search->scale != 1)
            for (long place = 0; place < rows * features; place++) run.output[place] *= search->scale;
        top_candidates(run.output, rows, search->output, search->asked, search->candidates, search->values, search->ids,
                       search->asked_log_probs, search->block, search->statistics, run.levels, run.level_scales, threads);
        if (step + 1 == search->steps) return step;
        Choice chosen[rows];
        for (long first = 0; first < rows; first += search->size)
            if (!choose(search, first, chosen + first)) return step;
        for (long first = 0; first < rows; first += search->size) continue_group(search, &run, first, step, chosen + first);
        run.slots += rows, run.begins += rows, run.positions += rows;
        if (run.plus) run.plus += rows * search->plus_features;
        if (run.turns) run.turns += rows * search->turns_features;
    }
}
