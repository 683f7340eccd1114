// One named policy: its parameters, and whose behaviour they stand for. A new preset is one file beside this one that
// defines its function, a line in the list below and one in presets.cpp.
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
Preset zero2_offload_preset();
Preset zero3_offload_preset();
Preset zero_infinity_preset();
Preset fsdp2_offload_preset();
Preset slideformer_preset();
Preset ml_dataflow_preset();

}  // namespace penstock
