// One named policy: its parameters, and whose behaviour they stand for. A new preset is one file beside this one that
// defines its function, and its line in the list below.
#pragma once

#include "shared/policy/parameters.h"

namespace penstock {

struct Preset {
  PresetInfo info;
  PolicyParameters parameters;
};

Preset penstock_preset();
Preset resident_preset();
Preset megatrain_preset();
Preset megatrain_released_preset();
Preset zero3_offload_preset();
Preset fsdp2_offload_preset();

}  // namespace penstock
