// The task as a plug-in. Its name is another one than that of the task that workers have already.
#include <muster/plugin.h>

#include "transformer.h"

MUSTER_PLUGIN({transformer::Info("own-transformer"), transformer::Make})
