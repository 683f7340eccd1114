// What the input op writes for a step: tokens and, of packed rows, labels, document starts and the number of labels that
// count. Each lies in DRAM, where the input op writes the next step's once nobody reads this one's there, and is copied
// to HBM.
#pragma once

#include <optional>
#include <vector>

#include "shared/policy/writer.h"

namespace penstock {

class StepInputs {
 public:
  explicit StepInputs(Writer& writer);

  /// The input op, and the copy of the count, which the step's scalars may want at once.
  void read();
  /// The copies of everything else.
  void upload();

  Access on_host(TensorKind tensor) const { return find(tensor).host; }
  Access on_device(TensorKind tensor) const { return find(tensor).device; }
  /// The number of labels that count; none in windows, where all do.
  std::optional<Access> trained_tokens(bool on_gpu) const;

 private:
  struct Input {
    const char* name;
    Access host, device;
  };
  void add(const char* name, TensorKind tensor, std::int64_t bytes);
  const Input& find(TensorKind tensor) const;
  void upload(const Input& input);

  Writer& writer_;
  std::vector<Input> inputs_;
};

}  // namespace penstock
