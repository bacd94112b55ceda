/* What Python calls: matrix products and LSTM layers in fixed point, on AVX2 or AVX-512. Each function returns 0 where memory is short. */

#include "products.h"
#include "packing.h"

#include "matrices.h"
#include "lstm.h"
