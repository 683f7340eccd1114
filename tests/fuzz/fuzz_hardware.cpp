// Hardware TOML, alone or as a card in a host: whatever is accepted has figures that the cost model can divide by.
#include <filesystem>

#include "shared/error.h"
#include "shared/machine/card_and_host.h"
#include "shared/machine/machine.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/step_on.h"
#include "tests/source_folder.h"

namespace penstock {
namespace {

void check_figures(const Machine& machine) {
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
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  static const InputFolder folder;
  static const std::filesystem::path host = source_folder() / "scenarios/hosts/desktop.toml";
  const std::filesystem::path file = folder.write("hardware.toml", as_text(data, size));
  try {
    check_figures(read_hardware(file));
  } catch (const InputError&) {
  }
  try {
    check_figures(read_card_and_host(file, host));
  } catch (const InputError&) {
  }
  return 0;
}
