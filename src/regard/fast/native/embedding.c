// Token embeddings (Vaswani et al. 2017, section 3.4).
#include "kernels.h"

// out = rows of `table` by `ids`, times `scale`, plus the rows of `plus` (or NULL): rows x features. Returns 0, or 1 if an id is
// not below `size`, the number of rows of the table.
int embed(const int64_t *ids, long rows, const float *table, long size, long features, float scale, const float *plus, float *out) {
    for (long row = 0; row < rows; row++, out += features) {
        if (ids[row] < 0 || ids[row] >= size) return 1;
        const float *from = table + ids[row] * features;
        for (long place = 0; place < features; place++) out[place] = from[place] * scale + (plus ? plus[row * features + place] : 0);
    }
    return 0;
}
