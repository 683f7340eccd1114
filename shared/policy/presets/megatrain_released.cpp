// MegaTrain as its public code of 2026-04-18 behaves, whatever K: weights are loaded three times (forward, recompute
// without gradients, forward again with gradients and backward) and 10 N FLOPs per token executed (2 + 2 + 2 + 4); each
// load first waits, on the host, for the previous load of the same buffer. Loads read a second, flat and pinned bf16
// copy of each decoder layer (2 B/param: 14 on the host). After backward the device is synchronised and the CPU works
// serially: global norm (the finish ops), scaling (4 B/param), Adam, re-flattening into those copies (4 B/param),
// zeroing (2 B/param). Not modelled: the copy into a second pair of GPU layer buffers at each bind, embedding and head
// that stay on the GPU, the logits of all chunks that stay alive, gradients that leave tensor by tensor.
#include "shared/policy/presets/preset.h"

namespace penstock {

Preset megatrain_released_preset() {
  PolicyParameters p = megatrain_preset().parameters;
  p.name = "megatrain-released";
  p.recompute_loads = 1;
  p.forward_twice = true;
  p.host_waits = HostWaits::per_buffer;
  p.upload_copies = true;
  p.host_pass_bytes_per_parameter = 4 + 2;
  return {{p.name, "MegaTrain as released: three weight loads, 10 N FLOPs, serial host phase",
           "MegaTrain, public code of 2026-04-18", false, "megatrain-released.toml"},
          p};
}

}  // namespace penstock
