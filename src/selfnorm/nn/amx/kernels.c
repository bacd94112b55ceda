/* What Python calls: LSTM layers and the softmax in bf16 on matrix tiles. Each function returns 0 where memory is short. */

#include "tiles.h"
#include "packing.h"
#include "exponential.h"

#include "lstm.h"
#include "softmax.h"

/* Ask the kernel for the tiles; 1 if this process may use them. */
int amx_enable(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
