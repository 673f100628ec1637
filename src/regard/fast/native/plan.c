// A sequence of kernels, run by one call: for few rows a call from Python takes as long as the kernel itself.
#include "plan.h"

int worth(void) { return WORTH; }

INLINE float *address_of(Operand operand, const Run *run) {
    if (operand.offset == NO_OPERAND) return 0;
    if (operand.offset == OUTPUT) return run->output;
    return (operand.offset == INPUT ? (float *)run->input : run->buffer + operand.offset * run->rows) + operand.column;
}

INLINE int threads_for(long multiplications, const Run *run) { return multiplications >= WORTH ? (int)run->threads : 1; }

static void attend(const Call *call, const Run *run, const float *x, const float *y, const float *z, float *out) {
    long rows = run->rows, d = call->features / call->heads, seen = call->kind == TO_SELF ? run->seen : run->longest;
    Heads heads = {rows, call->groups, call->heads / call->groups, d, seen + WIDTH, call->number,
                   threads_for(rows * call->features * seen, run)};
    long layer = call->layer, row = call->groups * d;
    if (call->kind == TO_SELF)
        attend_to_self(&heads, x, call->x.width, y, call->y.width, z, call->z.width, run->keys[layer], run->values[layer],
                       run->table, run->table_row, run->slots, run->begins, run->positions, run->scores, out);
    else
        attend_to_memory(&heads, x, call->x.width, run->memory_keys[layer], row, run->memory_values[layer], row, run->starts,
                         run->lengths, run->scores, out);
}

int run_plan(const Call *calls, long count, const Run *run) {
    for (const Call *call = calls; call < calls + count; call++) {
        const float *x = address_of(call->x, run), *y = address_of(call->y, run), *z = address_of(call->z, run);
        float *out = address_of(call->out, run);
        long rows = run->rows, features = call->features;
        const Weights *weights = call->weights;
        switch (call->kind) {
        case EMBED:
            if (embed(run->input, rows, call->weights, call->layer, features, call->number, run->plus, out)) return 1;
            break;
        case LINEAR:
            linear(x, rows, weights, y, out, run->levels, run->level_scales,
                   threads_for(rows * weights->features * weights->columns, run));
            break;
        case NORM:
            if (!call->heads) norm(x, rows, features, call->flag, call->number, call->weights, call->bias, out);
            for (long row = 0; call->heads && row < rows; row++) // of each head by itself
                norm(x + row * call->x.width, call->heads, features / call->heads, call->flag, call->number, call->weights,
                     call->bias, out + row * features);
            break;
        case ADD:
            for (long place = 0; place < rows * features; place++) out[place] = x[place] + y[place];
            break;
        case ACTIVATE: activate(x, call->x.width, y, call->y.width, rows, features, call->flag, out); break;
        case ROTATE: rotate(x, call->x.width, rows, call->heads, features / call->heads, run->rotary, out); break;
        default: attend(call, run, x, y, z, out);
        }
    }
    return 0;
}
