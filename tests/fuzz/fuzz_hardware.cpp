// Hardware TOML: whatever is accepted has figures that the cost model can divide by.
#include "shared/error.h"
#include "shared/machine/machine.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/step_on.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  try {
    const Machine machine = read_hardware(folder.write("hardware.toml", as_text(data, size)));
    const auto positive = [](double value) {
      if (!(value > 0 && value < 1e300)) std::abort();
    };
    positive(static_cast<double>(machine.gpu.hbm_bytes));
    positive(machine.gpu.hbm_bytes_per_second);
    positive(machine.gpu.matmul_flops_per_second);
    positive(machine.cpu.dram_bytes_per_second);
    positive(machine.link.h2d.bytes_per_second);
    for (const CopyPoint& point : machine.link.h2d.curve) positive(point.seconds);
    for (const ThreadRate& rate : machine.cpu.adamw_by_threads) positive(rate.per_second);
    check_step_on(machine);
  } catch (const InputError&) {
  }
  return 0;
}
