// The task as a plug-in. Its name is another one than that of the task that workers have already.
#include <muster/plugin.h>

#include "code_lm.h"

MUSTER_PLUGIN({code_lm::Info("own-code-lm"), code_lm::Make})
